package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
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
		pages := map[string]*vllm{}
		manifest := strings.Replace(example(t, "hpa-vllm.yaml", ns), `sluice.dev/instant: "true"`, one.annotation, 1)
		for i := range *overloads {
			name := fmt.Sprint("vllm-", i)
			c.Apply(t, ns, strings.NewReplacer("name: vllm\n", "name: "+name+"\n", "name: vllm}", "name: "+name+"}", "app: vllm}", "app: "+name+"}").Replace(manifest))
			pages[name] = newVLLM(t, c.AwaitPods(t, ns, "app="+name, 1)[0])
			pages[name].waiting.Store(4)
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
		logLatencies(t, one.name, c.overloaded(t, ns, pages, cfg.HPASync))
		if err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// overloaded has each page show overload at a moment of chance, and returns the times until its Deployment has three replicas.
func (c *cluster) overloaded(t *testing.T, ns string, pages map[string]*vllm, within time.Duration) (took []time.Duration) {
	t.Helper()
	watch, err := c.Kubernetes.AppsV1().Deployments(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	began := map[string]time.Time{}
	for name, page := range pages {
		after := rand.N(within)
		began[name] = time.Now().Add(after)
		time.AfterFunc(after, func() { page.waiting.Store(12) })
	}
	for event := range watch.ResultChan() {
		d, is := event.Object.(*apps.Deployment)
		if !is || *d.Spec.Replicas != 3 {
			continue
		}
		if at, waits := began[d.Name]; waits {
			took = append(took, time.Since(at))
			if delete(began, d.Name); len(began) == 0 {
				return took
			}
		}
	}
	t.Fatal("the watch ended")
	return nil
}
