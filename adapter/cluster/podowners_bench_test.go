package cluster

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// manyDeployments is a namespace of Deployments whose pods push a counter and a timer. Every
// Deployment has a Service of its name.
func manyDeployments(b testing.TB, deployments, podsEach int) (*View, *answer.Reader) {
	v := &View{pods: newPods(&Observer{}), replicaSets: newReplicaSets(), resources: newResources(),
		endpoints:       &endpointWatch{held: newEndpointSlices(), wanted: make(chan struct{}), requiredWatch: &requiredWatch{listed: func() bool { return true }}},
		replicaSetWatch: &kindWatch{listed: func() bool { return true }}}
	watched := newObjects("deployments.apps", &Observer{})
	v.kinds = append(v.kinds, &kindWatch{resource: "deployments.apps", objects: watched, listed: func() bool { return true }})
	v.resources.set([]resource{
		{resource: schema.GroupResource{Resource: "services"}, kind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, namespaced: true},
		{resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, namespaced: true},
		{resource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, namespaced: true},
	})
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
	for i := range deployments {
		app := fmt.Sprintf("service-%d", i)
		rs := fmt.Sprintf("6f9619ff-8b86-4011-b42d-%012d", i)
		replicaSet, _ := newReplicaSet(aReplicaSet(app+"-1", rs, ownedBy("Deployment", app, "d-"+app)...))
		v.replicaSets.put(replicaSet)
		held, _ := newObject(aDeployment("shop", app, "d-"+app))
		watched.put(held)
		var names []string
		for n := range podsEach {
			p := podOfController(fmt.Sprintf("%s-1-%05d", app, n), "ReplicaSet", app+"-1", rs)
			held := newPod(p)
			v.pods.put(held)
			names = append(names, p.Name)
			senders++
			s := metric.Sample{Name: []byte("requests"), Kind: metric.Counter, Whole: 1, Sender: &metric.Sender{Key: senders, Pod: held.Pod}}
			if r := w.Apply(&s); r != metric.Applied {
				b.Fatal(r)
			}
			s.Name, s.Kind, s.Op, s.Whole = []byte("latency"), metric.Timer, metric.Observe, int64(n+1)
			if r := w.Apply(&s); r != metric.Applied {
				b.Fatal(r)
			}
		}
		slice, _ := newEndpointSlice(anEndpointSlice(app, app, names...))
		v.endpoints.held.put(slice)
	}
	table.Roll()
	return v, readerOf(v, table, tracker)
}

// BenchmarkRollUp reads one object of 3,000 in one namespace, with 150,000 pods:
//
//	go test -run '^$' -bench BenchmarkRollUp ./adapter/cluster
func BenchmarkRollUp(b *testing.B) {
	const deployments, podsEach = 3000, 50
	_, reader := manyDeployments(b, deployments, podsEach)
	runtime.GC()
	for _, c := range []struct {
		name, resource, expression string
		object                     string // empty: another one in each read
		points                     int
	}{
		{"deployment/rate", "deployments.apps", "requests", "", 1},
		{"deployment/p95", "deployments.apps", "latency:p95", "", 1},
		{"replicaset (unwatched)/rate", "replicasets.apps", "requests", "service-7-1", 1},
		{"service/rate", "services", "requests", "", 1},
		{"all deployments/rate", "deployments.apps", "requests", "*", deployments},
		{"pod/rate", "pods", "requests", "service-7-1-00007", 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			i := 0
			before := cpuTime(b)
			for b.Loop() {
				q := metric.Query{Resource: c.resource, Namespace: "shop", Object: c.object, Expression: metric.ParseExpression(c.expression)}
				if i++; q.Object == "" {
					q.Object = fmt.Sprintf("service-%d", i*7919%deployments)
				}
				began := time.Now()
				points, err := reader.Objects(q)
				took = append(took, time.Since(began))
				if err != nil || len(points) != c.points || q.Resource != "pods" && points[0].Pods.With != podsEach {
					b.Fatal(points, err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// TestMemoryOfPodOwners holds the bytes that a pod costs in the index of controllers and in
// EndpointSlices.
func TestMemoryOfPodOwners(t *testing.T) {
	const pods = 100_000
	heap := func() int64 { // others' garbage may go in between
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	all := make([]*pod, pods)
	for i := range all {
		rs := fmt.Sprintf("6f9619ff-8b86-4011-b42d-%012d", i/10)
		all[i] = newPod(podOfController(fmt.Sprintf("service-%d-%d", i/10, i), "ReplicaSet", fmt.Sprintf("service-%d", i/10), rs))
	}
	index, before := controllerIndex{}, heap()
	for _, p := range all {
		index.add(p)
	}
	after := heap()
	t.Logf("controller index: %d bytes per pod", (after-before)/pods)
	if after-before > 40*pods {
		t.Errorf("the controller index takes %d bytes per pod", (after-before)/pods)
	}
	held, before := newEndpointSlices(), heap()
	for i := 0; i < pods; i += 10 {
		var names []string
		for _, p := range all[i : i+10] {
			names = append(names, p.Name)
		}
		slice, _ := newEndpointSlice(anEndpointSlice(fmt.Sprintf("service-%d-abcde", i/10), fmt.Sprintf("service-%d", i/10), names...))
		held.put(slice)
	}
	after = heap()
	t.Logf("EndpointSlices: %d bytes per pod", (after-before)/pods)
	if after-before > 80*pods {
		t.Errorf("EndpointSlices take %d bytes per pod", (after-before)/pods)
	}
	runtime.KeepAlive(index)
	runtime.KeepAlive(held)
	runtime.KeepAlive(all)
}
