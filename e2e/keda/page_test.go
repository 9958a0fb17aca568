package keda

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/binaries"
	"github.com/sluice-metrics/sluice/e2e/controlplane"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The usual pipeline for a page that shows overload, for comparison: Prometheus scrapes it, KEDA's autoscaler asks KEDA, and KEDA
// Prometheus, until there are three replicas. Each Deployment has a page and scales once, at a time of chance.
func TestPagePipeline(t *testing.T) {
	if *scrape == 0 {
		t.Skip("a comparison, not a test; -scrape turns it on")
	}
	paths, err := binaries.CachedKEDA(t.Context())
	if err != nil {
		t.Skip(err)
	}
	cfg := controlplane.DefaultConfig()
	cfg.HPASync = 15 * time.Second
	c, err := install(t, controlplane.New(t, cfg), paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	var waiting [pipelineWorkloads]atomic.Int64
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := 0
		if _, err := fmt.Sscanf(r.URL.Path, "/page%d", &i); err != nil || i >= pipelineWorkloads {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting %d\n", waiting[i].Load())
	}))
	t.Cleanup(pages.Close)
	settings := fmt.Sprintf("global: {scrape_interval: %s}\nscrape_configs:\n", *scrape)
	for i := range waiting {
		waiting[i].Store(4)
		settings += fmt.Sprintf("- {job_name: worker%d, metrics_path: /page%d, static_configs: [{targets: ['%s']}]}\n", i, i, pages.Listener.Addr())
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	prometheus := free(t)
	startListening(t, prometheus, "prometheus", "--config.file="+file, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+prometheus)
	ns := c.Namespace(t, "pages")
	for i := range waiting {
		name := fmt.Sprint("worker", i)
		c.Apply(t, ns, strings.Replace(strings.ReplaceAll(deployment, "worker", name), "replicas: 0", "replicas: 1", 1), fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 1
  maxReplicaCount: 8
  triggers:
  - type: prometheus
    metadata: {serverAddress: "http://%[2]s", query: 'max_over_time(vllm:num_requests_waiting{job="%[1]s"}[10s]) or vllm:num_requests_waiting{job="%[1]s"}', threshold: "5"}
`, name, prometheus))
	}
	within(t, 5*time.Minute, func() string {
		all, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(all.Items) < len(waiting) {
			return fmt.Sprint(len(all.Items), " autoscalers: ", err)
		}
		for i := range all.Items {
			if s := all.Items[i].Status; s.DesiredReplicas != 1 || len(s.CurrentMetrics) == 0 {
				return fmt.Sprintf("%s: %+v", all.Items[i].Name, s)
			}
		}
		return ""
	})
	took := c.overloaded(t, ns, &waiting)
	t.Logf("a page's overload to three replicas by Prometheus (scrape %s) and KEDA (sync %s): %s", *scrape, cfg.HPASync, spread(took))
}

// overloaded has each page show overload at a time of chance, and returns the times until its Deployment has three replicas.
func (c *cluster) overloaded(t *testing.T, ns string, waiting *[pipelineWorkloads]atomic.Int64) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	watch, err := c.Kubernetes.AppsV1().Deployments(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	began := map[string]time.Time{}
	for i := range waiting {
		after := rand.N(pollInterval)
		began[fmt.Sprint("worker", i)] = time.Now().Add(after)
		time.AfterFunc(after, func() { waiting[i].Store(12) })
	}
	for event := range watch.ResultChan() {
		if n, ok := replicasOf(event.Object); ok && n == 3 {
			name := event.Object.(metav1.Object).GetName()
			if at, waits := began[name]; waits {
				took = append(took, time.Since(at))
				if delete(began, name); len(began) == 0 {
					return took
				}
			}
		}
	}
	t.Fatalf("%d of %d Deployments have no third replica", len(began), len(waiting))
	return nil
}
