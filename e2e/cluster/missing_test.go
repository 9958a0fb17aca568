package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An autoscaler names a misspelt metric: Sluice's own metrics, an Event on the autoscaler and the
// log say so. Once it is pushed, they say that, too.
func tellsOfAMissingMetric(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "missing")
	c.Apply(t, ns, strings.ReplaceAll(example(t, "hpa-pods.yaml", ns), "http_requests", "http_reqests"))
	address := addressOf(t, c.AwaitPods(t, ns, "app=web", 1)[0])
	c.sendFrom(t, address, "http_requests:1|c")
	labels := `{hpa="web",metric="http_reqests:rate:10s",namespace="` + ns + `"}`
	c.wantOwnMetric(t, "sluice_autoscaler_metric_missing"+labels, 1)
	if _, there := c.sluice.Metrics()["sluice_autoscaler_metric_value"+labels]; there {
		t.Error("a missing metric has a value")
	}
	c.wantAutoscalerEvent(t, ns, core.EventTypeWarning, "MetricMissing", `Pods metric "http_reqests:rate:10s" has no value`,
		"none was ever received", `Did you mean "http_requests"?`, "sluice explain hpa/web -n "+ns)
	if text := c.Kubectl(t, "describe", "hpa", "-n", ns, "web"); !strings.Contains(text, "MetricMissing") {
		t.Errorf("kubectl describe hpa says\n%s", text)
	}
	within(t, func() error {
		for _, parts := range [][]string{
			{"a metric of an autoscaler has no value", "http_reqests"},
			{"a metric is asked for in vain", "http_reqests", "system:serviceaccount:kube-system:horizontal-pod-autoscaler"},
		} {
			if !c.saidLine(append(parts, ns)...) {
				return fmt.Errorf("no line of the log has %q", parts)
			}
		}
		return nil
	})

	c.repeat(t, address, func() string { return "http_reqests:1|c" })
	c.wantOwnMetric(t, "sluice_autoscaler_metric_missing"+labels, 0)
	c.wantAutoscalerEvent(t, ns, core.EventTypeNormal, "MetricAvailable", `Pods metric "http_reqests:rate:10s" has a value again`)
	within(t, func() error {
		if value := c.sluice.Metrics()["sluice_autoscaler_metric_value"+labels]; value <= 0 {
			return fmt.Errorf("the value is %v", value)
		}
		return nil
	})
}

// A metric that an autoscaler had is deleted. The autoscaler's status keeps the last value, which
// must not pass for another server's.
func noticesALostMetric(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "lost")
	c.Apply(t, ns, deployment("worker"), example(t, "hpa-external.yaml", ns))
	batch := addressOf(t, c.pod(t, ns, "batch", "default"))
	path := "/v1/namespaces/" + ns + "/external/queue_depth"
	c.push(t, batch, http.MethodPut, path+"?label=queue=mail", "5", http.StatusOK)
	labels := `{hpa="worker",metric="queue_depth",namespace="` + ns + `"}`
	c.wantOwnMetric(t, "sluice_autoscaler_metric_value"+labels, 5)
	within(t, func() error {
		hpa, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "worker", metav1.GetOptions{})
		if err == nil && (len(hpa.Status.CurrentMetrics) == 0 || hpa.Status.CurrentMetrics[0].External == nil) {
			err = errors.New("the autoscaler's status has no value")
		}
		return err
	})
	c.push(t, batch, http.MethodDelete, path, "", http.StatusOK)
	within(t, func() error {
		if got := c.sluice.Metrics()["sluice_autoscaler_metric_missing"+labels]; got != 1 {
			return errors.New("the metric is not missing\n" + c.Kubectl(t, "describe", "hpa", "-n", ns, "worker"))
		}
		return nil
	})
}

// wantOwnMetric waits for a metric of Sluice's own.
func (c *cluster) wantOwnMetric(t *testing.T, series string, want float64) {
	t.Helper()
	within(t, func() error {
		if got, there := c.sluice.Metrics()[series]; !there || got != want {
			return fmt.Errorf("%s is %v (there: %v), want %v", series, got, there, want)
		}
		return nil
	})
}

// wantAutoscalerEvent waits for an Event of Sluice's on the autoscaler "web" whose message holds
// all parts. The grace period passes before.
func (c *cluster) wantAutoscalerEvent(t *testing.T, namespace, sort, reason string, parts ...string) {
	t.Helper()
	within(t, func() error {
		hpa, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, err := c.Kubernetes.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=HorizontalPodAutoscaler,reason=" + reason})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d Events %s, want 1", len(list.Items), reason)
		}
		event := &list.Items[0]
		if event.InvolvedObject.UID != hpa.UID || event.Type != sort || event.Count != 1 {
			return fmt.Errorf("Event %+v", event)
		}
		for _, part := range parts {
			if !strings.Contains(event.Message, part) {
				return fmt.Errorf("the Event says %q, want %q in it", event.Message, part)
			}
		}
		return nil
	})
}

// saidLine reports whether a line of Sluice's log holds all parts.
func (c *cluster) saidLine(parts ...string) bool {
	for line := range strings.Lines(c.sluice.Said()) {
		holds := true
		for _, part := range parts {
			holds = holds && strings.Contains(line, part)
		}
		if holds {
			return true
		}
	}
	return false
}
