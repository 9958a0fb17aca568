package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// outage is longer than samples are held for a pod whose address nobody tells, and long enough
	// for client-go's watches to wait half a minute between two attempts.
	outage = 65 * time.Second
)

const unanswered = `sluice_cluster_unanswered_seconds{resource="pods"}`

// The API server is away for a minute. Sluice says so, holds the samples of a pod whose address is
// not told meanwhile, and is up to date as soon as the server is back. A frozen one is told, too.
func TestAPIServerOutage(t *testing.T) {
	t.Parallel()
	c := installInto(t, controlplane.New(t, controlplane.DefaultConfig()))
	ns, early := c.Namespace(t, "outage"), c.Namespace(t, "starting")
	c.pod(t, ns, "old", "default")
	release := c.Kubelet.Hold(early)
	c.Apply(t, early, podManifest("starting", "default"))
	address := c.Kubelet.Address(t, early, "starting")
	before := c.sluice.Metrics()["sluice_cluster_pods"]

	c.KillAPIServer(t)
	gone := time.Now()
	time.Sleep(3 * time.Second)
	for range 3 {
		c.sendFrom(t, address, "started:1|c")
	}
	within(t, func() error { return c.sluiceIsBlind() })
	time.Sleep(outage - time.Since(gone))
	c.StartAPIServer(t)

	back := time.Now()
	if err := c.Kubernetes.CoreV1().Pods(ns).Delete(t.Context(), "old", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	within(t, func() error {
		if n := c.sluice.Metrics()["sluice_cluster_pods"]; n != before-1 {
			return fmt.Errorf("%v pods are known, want %v", n, before-1)
		}
		return nil
	})
	t.Logf("a deleted pod is gone after %v", time.Since(back))

	starting, err := c.Kubernetes.CoreV1().Pods(early).Get(t.Context(), "starting", metav1.GetOptions{})
	must(t, err)
	starting.Status.Phase, starting.Status.PodIP = core.PodRunning, address.String()
	starting.Status.PodIPs = []core.PodIP{{IP: address.String()}}
	told := time.Now()
	if _, err := c.Kubernetes.CoreV1().Pods(early).UpdateStatus(t.Context(), starting, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, func() error {
		if n := c.sluice.Metrics()["sluice_pending_senders"]; n != 0 {
			return fmt.Errorf("%v senders are pending", n)
		}
		return nil
	})
	t.Logf("a pod's address is known after %v", time.Since(told))
	within(t, func() error { // the API server looks for who serves the metrics, too
		got, err := c.values(t, "/namespaces/"+early+"/pods/*/started:total")
		if err == nil && got["starting"] != 3 {
			err = fmt.Errorf("started:total is %v, want 3: what was sent while the API server was away", got)
		}
		return err
	})
	release()

	c.FreezeAPIServer(t, func() { within(t, c.sluiceIsBlind) })
	within(t, func() error {
		if v := c.sluice.Metrics()[unanswered]; v != 0 {
			return fmt.Errorf("unanswered for %v s once the server goes on", v)
		}
		return nil
	})
	c.sluice.Kill()
	if text := c.sluice.Said(); strings.Contains(text, "NAT") || !strings.Contains(text, "the API server does not respond") {
		t.Errorf("the log does not say that the API server was away, or blames the network:\n%s", text)
	}
}

// sluiceIsBlind is an error where Sluice does not say that pods are unanswered for.
func (c *cluster) sluiceIsBlind() error {
	if c.sluice.Metrics()[unanswered] == 0 {
		return fmt.Errorf("%s is 0", unanswered)
	}
	resp, err := http.Get("http://" + c.sluice.Ops + "/readyz?verbose")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if text := string(body); !strings.Contains(text, "no answer about") || !strings.Contains(text, "pods") {
		return fmt.Errorf("/readyz says %d %s", resp.StatusCode, text)
	}
	return nil
}
