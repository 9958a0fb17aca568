package group

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// probe is an Applier that calls a function before it does nothing.
type probe func(call string)

func (p probe) Apply(*metric.Sample) metric.Reason { p("Apply"); return metric.Applied }
func (p probe) Quiesce()                           {}
func (p probe) Offline()                           { p("Offline") }
func (p probe) Online()                            { p("Online") }

// gauges are families of one series each, with numbered names.
func gauges(from, n int) []exposition.Family {
	families := make([]exposition.Family, n)
	for i := range families {
		families[i] = exposition.Family{Name: fmt.Sprintf("f%06d", from+i), Type: exposition.GaugeType,
			Metrics: []exposition.Metric{{Value: 1}}}
	}
	return families
}

// waitIn counts the goroutines that wait for a mutex in a method of Groups.
func waitIn(method string) (n int) {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	for one := range strings.SplitSeq(string(text), "\n\n") {
		if strings.Contains(one, "[sync.Mutex.Lock") && strings.Contains(one, "(*Groups)."+method+"(") {
			n++
		}
	}
	return n
}

// A flush waits for two of the pushes to a group, not for all that came before it.
func TestAFlushPassesPushesThatWait(t *testing.T) {
	f := newFixture(t)
	const waiting = 50
	key, begun, permits := keyOf("job=a"), make(chan struct{}, 1+waiting), make(chan struct{})
	var pushes sync.WaitGroup
	push := func() {
		_, r := f.Push(&Push{Key: key, Families: gauges(0, 1), Now: f.now, Applier: probe(func(call string) {
			if call == "Apply" {
				begun <- struct{}{}
				<-permits
			}
		})})
		if r != nil {
			t.Error(r.Message)
		}
	}
	pushes.Go(push)
	<-begun
	for range waiting {
		pushes.Go(push)
	}
	var passed atomic.Bool
	waits := func(pushes int) { // until all do, or the flush has the group
		for !passed.Load() && (waitIn("Push") < pushes || waitIn("lockExisting") == 0) {
			runtime.Gosched()
		}
	}
	go func() { // as the flush, replication and deletions of namespaces do
		for waitIn("Push") < waiting {
			runtime.Gosched()
		}
		g := f.lockExisting(key.Hash())
		passed.Store(true)
		g.mu.Unlock()
	}()
	waits(waiting)
	ahead := 0
	for ; !passed.Load() && ahead < waiting; waits(waiting - ahead) {
		permits <- struct{}{}
		ahead++
		<-begun // of the next push
	}
	if ahead > 2 {
		t.Errorf("%d of %d pushes came before the flush", ahead, 1+waiting)
	}
	close(permits)
	pushes.Wait()
}

// While a push waits for its group, its Applier holds back no memory.
func TestAPushWaitsOffline(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "x 1\n")
	g := f.lookup(keyOf("job=a"))
	var calls []string
	_, r := f.Push(&Push{Key: g.key, Families: gauges(0, 1), Now: f.now, Applier: probe(func(call string) {
		if locked := !g.mu.TryLock(); locked {
			call += ", locked"
		} else {
			g.mu.Unlock()
		}
		calls = append(calls, call)
	})})
	if want := []string{"Offline", "Online, locked", "Apply, locked"}; r != nil || !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q: %v", calls, want, r)
	}
}

// A group has so many families at most. One that has more, because replicas have joined theirs, keeps them.
func TestFamiliesOfAGroupAreBounded(t *testing.T) {
	f := newFixture(t)
	push := func(families []exposition.Family, replace bool) *Rejection {
		_, r := f.Push(&Push{Key: keyOf("job=a"), Families: families, Replace: replace, Now: f.now, Applier: probe(func(string) {})})
		return r
	}
	for n := 0; n < maxFamilies; n += 1000 {
		if r := push(gauges(n, 1000), false); r != nil {
			t.Fatal(r.Message)
		}
	}
	if r := push(gauges(maxFamilies-1, 2), false); r == nil || r.Reason != metric.OverLimit {
		t.Errorf("one family more: %v", r)
	}
	if r := push(gauges(maxFamilies-1, 1), false); r != nil {
		t.Errorf("a family that the group has: %s", r.Message)
	}
	g := f.lookup(keyOf("job=a"))
	c := *g.contents.Load()
	c.families = append(slices.Clone(c.families), &family{Family: gauges(maxFamilies, 1)[0]})
	g.contents.Store(&c)
	if r := push(gauges(maxFamilies, 1), false); r != nil {
		t.Errorf("a family that the group has beyond the bound: %s", r.Message)
	}
	if r := push(gauges(maxFamilies, 2), true); r != nil {
		t.Errorf("a PUT: %s", r.Message)
	}
}
