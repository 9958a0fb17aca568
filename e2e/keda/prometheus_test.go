package keda

import (
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
	"github.com/sluice-metrics/sluice/e2e/server"
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
	must(t, err)
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
	push := map[string]func(){}
	for i := range pipelineWorkloads {
		push[fmt.Sprint("worker", i)] = func() { send(i, 1) }
	}
	took := c.Scaled(t, ns, 1, pollInterval, push)
	t.Logf("datagram to spec.replicas 1 by statsd_exporter, Prometheus (scrape %s) and KEDA's prometheus scaler (poll %s): %s", *scrape, pollInterval, spread(took))
}

func startPipeline(t *testing.T) (statsd, prometheus string) {
	t.Helper()
	folder := t.TempDir()
	statsd, web, prometheus := server.FreeAddress(t, "tcp"), server.FreeAddress(t, "tcp"), server.FreeAddress(t, "tcp")
	settings := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: %s}\nscrape_configs: [{job_name: statsd, static_configs: [{targets: ['%s']}]}]\n", *scrape, web)
	must(t, os.WriteFile(settings, []byte(text), 0o600))
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
	must(t, err)
	t.Cleanup(process.Kill)
	server.Within(t, func() string {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
}
