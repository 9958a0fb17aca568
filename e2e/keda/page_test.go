package keda

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The usual pipeline for a page that shows overload, for comparison: Prometheus scrapes it, KEDA's autoscaler asks KEDA, and KEDA
// Prometheus, until there are three replicas. Each Deployment has a page and scales once, at a time of chance.
func TestPagePipeline(t *testing.T) {
	if *scrape == 0 {
		t.Skip("a comparison, not a test; -scrape turns it on")
	}
	cfg := controlplane.DefaultConfig()
	cfg.HPASync = 15 * time.Second
	c := installed(t, cfg)
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
	must(t, os.WriteFile(file, []byte(settings), 0o600))
	prometheus := server.FreeAddress(t, "tcp")
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
	server.Within(t, func() string {
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
	overload := map[string]func(){}
	for i := range waiting {
		overload[fmt.Sprint("worker", i)] = func() { waiting[i].Store(12) }
	}
	took := c.Scaled(t, ns, 3, pollInterval, overload)
	t.Logf("a page's overload to three replicas by Prometheus (scrape %s) and KEDA (sync %s): %s", *scrape, cfg.HPASync, spread(took))
}
