package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	watcher "github.com/sluice-metrics/sluice/adapter/autoscaler"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// largeCluster has autoscalers of Deployments in namespaces of ten, whose pods push two counters.
func largeCluster(b testing.TB, autoscalers, podsEach int) (*View, *aggregate.Table, *rollup.Tracker) {
	v := &View{pods: newPods(&Observer{}), replicaSets: newReplicaSets(), autoscalers: newAutoscalers(&Observer{}), resources: newResources()}
	table := aggregate.New(aggregate.DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object = s.Sender.Pod.Object()
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	tracker := rollup.NewTracker(v)
	table.SetObserver(tracker)
	w := table.NewWriter()
	w.Online()
	defer w.Offline()
	senders := uint64(0)
	for i := range autoscalers {
		namespace, app := fmt.Sprintf("team-%d", i/10), fmt.Sprintf("service-%d", i)
		rs := fmt.Sprintf("6f9619ff-8b86-4011-b42d-%012d", i)
		replicaSet, _ := newReplicaSet(aReplicaSet(app+"-1", rs, ownedBy("Deployment", app, "d-"+app)...))
		v.replicaSets.put(replicaSet)
		hpa := anAutoscaler(namespace, app, podsMetric("http_requests:rate:10s"), podsMetric("errors"))
		hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: app}
		short := newAutoscaler(hpa)
		v.autoscalers.put(short)
		for n := range podsEach {
			p := podOfController(fmt.Sprintf("%s-1-%05d", app, n), "ReplicaSet", app+"-1", rs)
			p.Namespace = namespace
			held := newPod(p)
			v.pods.put(held)
			senders++
			for _, name := range []string{"http_requests", "errors"} {
				if r := w.Apply(&metric.Sample{Name: []byte(name), Kind: metric.Counter, Whole: 1, Sender: &metric.Sender{Key: senders, Pod: held.Pod}}); r != metric.Applied {
					b.Fatal(r)
				}
			}
		}
	}
	return v, table, tracker
}

func readerOf(v *View, table *aggregate.Table, tracker *rollup.Tracker) *answer.Reader {
	return answer.New(answer.Parts{Merged: aggregate.NewMerged(table), Rules: &rule.Current{}, Cluster: v, Workloads: tracker})
}

// BenchmarkAutoscalerRound is what a round costs, without the state and the notices of package
// autoscaler.
func BenchmarkAutoscalerRound(b *testing.B) {
	for _, c := range []struct{ autoscalers, pods int }{{300, 10}, {300, 100}, {3000, 10}, {3000, 50}} {
		b.Run(fmt.Sprintf("%dx%d", c.autoscalers, c.pods), func(b *testing.B) {
			v, table, tracker := largeCluster(b, c.autoscalers, c.pods)
			r := adapter.NewAutoscalerReader(adapter.Parts{Cluster: v, Source: readerOf(v, table, tracker)})
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				targets := v.Targets()
				for _, a := range v.Autoscalers("") {
					for i := range a.Metrics {
						got, err := r.Of(a, &a.Metrics[i], targets)
						if err != nil || got.Values != c.pods || got.Pods != c.pods {
							b.Fatal(got, err)
						}
					}
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			runtime.KeepAlive(table)
		})
	}
}

// cpuTime is the CPU time of this process.
func cpuTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A watcher of a large cluster keeps little beside the view's documents. It has ended when its memory is
// measured, since the view may still grow while it reads for the first time.
func TestMemoryOfAWatcher(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the view with 3,000 autoscalers")
	}
	const many = 3000
	v, table, tracker := largeCluster(t, many, 1)
	r := adapter.NewAutoscalerReader(adapter.Parts{Cluster: v, Source: readerOf(v, table, tracker)})
	w := watcher.New(watcher.Parts{List: v.Autoscalers, Begin: func() watcher.Reader { return benchReader{r, v.Targets()} },
		Ready: func() bool { return true }, Quantity: adapter.Quantity, NotAsked: func(string) error { return nil }})
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	w.Changed()
	eventually(t, "that all are read", func() bool {
		all := w.Autoscalers(inspect.Query{Namespace: "team-299"}).Items
		return len(all) == 10 && all[9].Metrics[1].Asked
	})
	end()
	<-done // a round in progress has memory of its own
	with := heap()
	runtime.KeepAlive(w)
	w = nil
	each := float64(int64(with)-int64(heap())) / many
	t.Logf("%.0f bytes an autoscaler of two metrics", each)
	if each < 200 || each > 1024 {
		t.Errorf("%.0f bytes an autoscaler beside its document, want 200 to 1,024", each)
	}
	runtime.KeepAlive([]any{v, table, tracker})
}

type benchReader struct {
	from    *adapter.AutoscalerReader
	targets *Targets
}

func (r benchReader) Read(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (watcher.Reading, error) {
	reading, err := r.from.Of(a, m, r.targets)
	return watcher.Reading{Sum: reading.Sum, Values: reading.Values, Pods: reading.Pods}, err
}

func (r benchReader) HeldBack(a *inspect.Autoscaler) []explain.Held {
	return make([]explain.Held, len(a.Metrics)) // cmd/sluice reads the values again where pods lack one
}
