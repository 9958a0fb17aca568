package keda

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/child"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scrape turns the comparison on. It takes prometheus and statsd_exporter from $PATH:
// go test -run TestPrometheusPipeline -scrape 15s -v ./keda
var scrape = flag.Duration("scrape", 0, "scrape interval of Prometheus in TestPrometheusPipeline; 0: skipped")

const (
	pipelineWorkloads = 50
	pollInterval      = 30 * time.Second // KEDA's default
)

// The usual pipeline for comparison: a datagram to statsd_exporter, scraped by Prometheus, polled by KEDA's
// prometheus scaler, until spec.replicas 1. Each of many Deployments is woken once, at a time of chance.
func TestPrometheusPipeline(t *testing.T) {
	if *scrape == 0 {
		t.Skip("a comparison, not a test; -scrape turns it on")
	}
	c := shared(t)
	ns := c.Namespace(t, "pipeline")
	statsd, prometheus := startPipeline(t)
	conn, err := net.Dial("udp", statsd)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(i, value int) {
		if _, err := fmt.Fprintf(conn, "jobs%d:%d|g", i, value); err != nil {
			t.Error(err)
		}
	}
	for i := range pipelineWorkloads {
		send(i, 0)
		c.Apply(t, ns, strings.ReplaceAll(deployment, "worker", fmt.Sprintf("worker%d", i)), fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: worker%[1]d}
spec:
  scaleTargetRef: {name: worker%[1]d}
  minReplicaCount: 0
  triggers:
  - type: prometheus
    metadata: {serverAddress: "http://%[2]s", query: "jobs%[1]d", threshold: "10", activationThreshold: "0"}
`, i, prometheus))
		time.Sleep(rand.N(2 * pollInterval / pipelineWorkloads)) // polls at all phases
	}
	time.Sleep(pollInterval + *scrape)
	took := c.wokenDeployments(t, ns, send)
	t.Logf("datagram to spec.replicas 1 by statsd_exporter, Prometheus (scrape %s) and KEDA's prometheus scaler (poll %s): %s", *scrape, pollInterval, spread(took))
}

// wokenDeployments pushes for each of the Deployments at a time of chance, and returns the times until they
// have a replica.
func (c *cluster) wokenDeployments(t *testing.T, ns string, send func(i, value int)) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*pollInterval)
	defer cancel()
	watch, err := c.Kubernetes.AppsV1().Deployments(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	sent := map[string]time.Time{}
	for i := range pipelineWorkloads {
		at := rand.N(pollInterval)
		sent[fmt.Sprintf("worker%d", i)] = time.Now().Add(at)
		time.AfterFunc(at, func() { send(i, 1) })
	}
	for len(sent) > 0 {
		select {
		case event := <-watch.ResultChan():
			if n, ok := replicasOf(event.Object); ok && n > 0 {
				name := event.Object.(metav1.Object).GetName()
				if begun, waiting := sent[name]; waiting {
					took = append(took, time.Since(begun))
					delete(sent, name)
				}
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d Deployments have no replica", len(sent), pipelineWorkloads)
		}
	}
	return took
}

func startPipeline(t *testing.T) (statsd, prometheus string) {
	t.Helper()
	folder := t.TempDir()
	statsd, web, prometheus := free(t), free(t), free(t)
	settings := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: %s}\nscrape_configs: [{job_name: statsd, static_configs: [{targets: ['%s']}]}]\n", *scrape, web)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startListening(t, web, "statsd_exporter", "--statsd.listen-udp="+statsd, "--statsd.listen-tcp=", "--web.listen-address="+web)
	startListening(t, prometheus, "prometheus", "--config.file="+settings, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+prometheus)
	return statsd, prometheus
}

// startListening starts a program of $PATH, and waits until it listens at an address.
func startListening(t *testing.T, address, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	if cmd.Err != nil {
		t.Skip(cmd.Err)
	}
	process, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	within(t, 30*time.Second, func() string {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
}
