package limit

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// The largest cluster has 150,000 pods with a few metrics each, so the bytes per metric and pod
// decide about memory.
func TestMemoryOfAPodsMetric(t *testing.T) {
	const pods = 10_000
	for _, c := range []struct {
		metrics int
		most    float64 // bytes
	}{{1, 240}, {4, 90}, {5, 80}} {
		objects := make([]metric.Object, pods)
		for i := range objects {
			objects[i] = metric.Object{Resource: "pods", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprintf("%036d", i)}
		}
		names := make([]string, c.metrics)
		for i := range names {
			names[i] = fmt.Sprint("requests.metric.", i)
		}
		before := heap()
		w := newWard(DefaultConfig())
		for _, name := range names {
			for i := range objects {
				if w.registry.Admit(&objects[i], name, metric.Labels{}, 1) != metric.Applied {
					t.Fatal("rejected")
				}
			}
		}
		each := float64(heap()-before) / float64(pods*c.metrics)
		t.Logf("%d metrics a pod: %.0f bytes a metric of a pod", c.metrics, each)
		if each > c.most {
			t.Errorf("%d metrics a pod: %.0f bytes a metric of a pod, want at most %.0f", c.metrics, each, c.most)
		}
		for i := range objects {
			for _, name := range names {
				w.registry.Leave(&objects[i], name, metric.Labels{})
			}
		}
		if n := w.scopes(); n != 0 {
			t.Errorf("%d quotas are left", n)
		}
		runtime.KeepAlive(objects)
		runtime.KeepAlive(w)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// With several replicas, a registry counts the series of all origins.
func TestMemoryOfASeriesOfSeveralOrigins(t *testing.T) {
	const pods, perPod = 5_000, 5
	c := DefaultConfig()
	each := func(origin string, others int) float64 {
		c.Origin = origin
		before := heap()
		w := newWard(c)
		var more []*Origin
		for i := range others {
			more = append(more, w.registry.Origin(fmt.Sprint("sluice-", i), w))
		}
		for i := range pods {
			o := metric.Object{Resource: "pods", Namespace: "shop", Name: "web", UID: "1"}
			o.Name = fmt.Sprint("web-", i)
			for m := range perPod {
				w.registry.Admit(&o, "requests", metric.NewLabels([]metric.Label{{Key: "code", Value: fmt.Sprint(m)}}), 1)
				for _, g := range more {
					g.Enter(&o, "requests", metric.NewLabels([]metric.Label{{Key: "code", Value: fmt.Sprint(m)}}), 1)
				}
			}
		}
		used := float64(heap()-before) / (pods * perPod)
		runtime.KeepAlive(w)
		return used
	}
	alone, one, three := each("", 0), each("sluice-a", 0), each("sluice-a", 2)
	t.Logf("alone %.0f bytes a series; with replicas %.0f, of three origins %.0f", alone, one, three)
	if three > alone+50 {
		t.Errorf("%.0f bytes a series with three origins, alone %.0f", three, alone)
	}
}
