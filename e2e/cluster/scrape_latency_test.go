package cluster

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

// overloads: docs/performance.md has the command and what it printed.
var overloads = flag.Int("overloads", 0, "number of pods whose page shows overload in TestPageLatency, with and without nudges; 0: it is skipped")

// The time from the moment at which a pod's page shows overload to three replicas, as a client of the API server sees it in a
// watch. The page is scraped each second, the controller syncs every 15 s; each Deployment scales once, at any moment between two syncs.
func TestPageLatency(t *testing.T) {
	t.Parallel()
	if *overloads == 0 {
		t.Skip("skipped: it measures; -overloads 50 runs it")
	}
	cfg := controlplane.DefaultConfig()
	cfg.HPASync = 15 * time.Second
	c := installObjects(t, controlplane.New(t, cfg), render(t, "instant.yaml"), "--scrape")
	for _, one := range []struct{ name, annotation string }{{"with", `sluice.dev/instant: "true"`}, {"without", ""}} {
		ns := c.Namespace(t, one.name)
		overload := map[string]func(){}
		manifest := strings.Replace(example(t, "hpa-vllm.yaml", ns), `sluice.dev/instant: "true"`, one.annotation, 1)
		for i := range *overloads {
			name := fmt.Sprint("vllm-", i)
			c.Apply(t, ns, strings.NewReplacer("name: vllm\n", "name: "+name+"\n", "name: vllm}", "name: "+name+"}", "app: vllm}", "app: "+name+"}").Replace(manifest))
			page := newVLLM(t, c.AwaitPods(t, ns, "app="+name, 1)[0])
			page.waiting.Store(4)
			overload[name] = func() { page.waiting.Store(12) }
		}
		within(t, func() error {
			all, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).List(t.Context(), metav1.ListOptions{})
			for i := range all.Items {
				if all.Items[i].Status.DesiredReplicas != 1 || len(all.Items[i].Status.CurrentMetrics) == 0 {
					err = fmt.Errorf("%s: %+v", all.Items[i].Name, all.Items[i].Status)
				}
			}
			return err
		})
		logLatencies(t, one.name, c.Scaled(t, ns, 3, cfg.HPASync, overload))
		if err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
