package keda

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/metric"
)

// slowMetrics is a Source of metrics that change all the time and take long to read, by name.
type slowMetrics struct {
	mu      sync.Mutex // guards the rest
	takes   map[string]time.Duration
	reads   map[string]int
	watched map[*slowMetric]bool
	values  map[string]float64
}

type slowMetric struct {
	*slowMetrics
	name    string
	changed func()
}

func (s *slowMetrics) Ask(q trigger.Question) (Asked, error) {
	return &slowMetric{slowMetrics: s, name: q.Metric}, nil
}

func (s *slowMetrics) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slowMetric := range s.watched {
		slowMetric.changed()
	}
}

func (s *slowMetrics) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func newSlowMetrics() *slowMetrics {
	return &slowMetrics{takes: map[string]time.Duration{}, reads: map[string]int{}, watched: map[*slowMetric]bool{}, values: map[string]float64{}}
}

func (m *slowMetric) Value() (metric.Number, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads[m.name]++
	takes := m.takes[m.name]
	m.mu.Unlock()
	time.Sleep(takes)
	m.mu.Lock()
	return metric.Float(m.values[m.name]), nil
}

func (m *slowMetric) Watch(changed func()) {
	m.changed = changed
	m.set(func() { m.watched[m] = true })
}

func (m *slowMetric) Unwatch() { m.set(func() { delete(m.watched, m) }) }

// A value below 0 is 0 for a stream as for a poll.
func TestValuesBelowZeroOfAStream(t *testing.T) {
	s := newSlowMetrics()
	s.values["below"] = -5
	for activation, want := range map[float64]bool{-1: true, 0: false} {
		asked, _ := s.Ask(trigger.Question{Metric: "below"})
		o := newWatcher(s).add(&trigger.Trigger{Activation: activation}, asked)
		if o.readAt(time.Now()); o.active != want {
			t.Errorf("above %v: %t", activation, o.active)
		}
	}
}

// Triggers that take long to read, and change all the time, leave time for the others: each takes a
// tenth of a processor at most, all together a fifth and one reading a look.
func TestSlowTriggersLeaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		ctx, stop := context.WithCancel(t.Context())
		open := func(name string, takes time.Duration) *watched {
			s.set(func() { s.takes[name] = takes })
			asked, _ := s.Ask(trigger.Question{Metric: name})
			return w.add(&trigger.Trigger{}, asked)
		}
		open("second", time.Second)
		open("tenth", 100*time.Millisecond)
		quick := open("quick", 0)
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(time.Minute)
		s.mu.Lock()
		if s.reads["second"] > 14 || s.reads["tenth"] > 65 || s.reads["second"] < 4 || s.reads["tenth"] < 25 || s.reads["quick"] < 1000 {
			t.Errorf("in a minute: %v", s.reads)
		}
		s.mu.Unlock()
		for i := range 200 {
			open(fmt.Sprint("some", i), time.Millisecond)
		}
		<-quick.news
		time.Sleep(time.Minute)
		busy := 0
		s.mu.Lock()
		for i := range 200 {
			busy += s.reads[fmt.Sprint("some", i)]
		}
		s.mu.Unlock()
		if busy > 60_000/3 || busy < 60_000/10 {
			t.Errorf("readings of a millisecond took %d ms of a minute", busy)
		}
		began := time.Now()
		s.set(func() { s.values["quick"] = 1 })
		if active := <-quick.news; !active || time.Since(began) > 2*time.Second {
			t.Errorf("active %t after %s", active, time.Since(began))
		}
		stop()
		<-done
	})
}

// A namespace with any number of triggers that take long to read delays those of another one by some looks, be it one
// trigger or a hundred: the one that has taken less time is read first.
func TestTriggersOfANamespaceDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		open := func(namespace, name string, takes time.Duration) *watched {
			s.set(func() { s.takes[name] = takes })
			asked, _ := s.Ask(trigger.Question{Metric: name})
			return w.add(&trigger.Trigger{Question: trigger.Question{Namespace: namespace}}, asked)
		}
		const flood, shop = 300, 100
		for i := range flood {
			open("flood", fmt.Sprint("flood", i), mostReading+time.Millisecond)
			one := open("flood", "ends", mostReading+time.Millisecond)
			time.AfterFunc(5*time.Second, func() { w.remove(one) }) // most wait for their turn
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(10 * time.Second)
		var all []*watched
		for i := range shop {
			all = append(all, open("shop", fmt.Sprint("shop", i), 100*time.Microsecond))
		}
		wantSoon := func(want bool, of []*watched, within time.Duration) {
			t.Helper()
			began := time.Now()
			for _, one := range of {
				for active := !want; active != want; {
					active = <-one.news
				}
			}
			if took := time.Since(began); took > within {
				t.Errorf("%d triggers are told of %t after %s, want %s", len(of), want, took, within)
			}
		}
		wantSoon(false, all, 6*lookEvery)
		for _, n := range []int{1, shop, 1, shop} {
			time.Sleep(10*time.Second + 3*time.Millisecond)
			s.set(func() {
				for i := range n {
					s.values[fmt.Sprint("shop", i)] = 1
				}
			})
			wantSoon(true, all[:n], 6*lookEvery)
			s.set(func() { clear(s.values) })
			wantSoon(false, all[:n], readActive+6*lookEvery)
		}
		stop()
		<-done
		reads := 0
		for i := range flood {
			reads += s.reads[fmt.Sprint("flood", i)]
		}
		if reads < 40*20 || len(s.watched) != flood+shop || w.count() != flood+shop {
			t.Errorf("%d readings of the flood; %d streams, %d watches", reads, w.count(), len(s.watched))
		}
	})
}

// A namespace is charged for readings that take longer than a look: those of another one, which take as long together, come
// before the next of them.
func TestSlowReadingsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		open := func(namespace, name string, takes time.Duration) *watched {
			s.set(func() { s.takes[name] = takes })
			asked, _ := s.Ask(trigger.Question{Metric: name})
			return w.add(&trigger.Trigger{Question: trigger.Question{Namespace: namespace}}, asked)
		}
		for i := range 30 { // more than there is time for
			open("flood", fmt.Sprint("flood", i), time.Second)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(time.Minute)
		began := time.Now()
		var all []*watched
		for i := range 100 {
			all = append(all, open("shop", fmt.Sprint("shop", i), time.Millisecond))
		}
		for _, one := range all {
			<-one.news
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("100 readings of a millisecond took %s", took)
		}
		stop()
		<-done
	})
}

// A sample that activates an idle trigger is news for its stream within 50 ms, whenever it comes.
func TestACrossingIsNoticedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		asked, _ := s.Ask(trigger.Question{Metric: "jobs"})
		watched := w.add(&trigger.Trigger{}, asked)
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(done); w.run(ctx) }()
		<-watched.news
		for i := range 20 {
			time.Sleep(time.Minute + time.Duration(i)*time.Millisecond)
			began := time.Now()
			s.set(func() { s.values["jobs"] = 1 })
			if active := <-watched.news; !active || time.Since(began) > 50*time.Millisecond {
				t.Errorf("active %t after %s", active, time.Since(began))
			}
			s.set(func() { s.values["jobs"] = 0 })
			for active := true; active; {
				active = <-watched.news
			}
		}
		stop()
		<-done
	})
}

// A stream that ends before run has looked at it, and one that is open, leave nothing behind.
func TestStreamsThatEndAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		add := func() *watched {
			asked, _ := s.Ask(trigger.Question{Metric: "m"})
			return w.add(&trigger.Trigger{}, asked)
		}
		open := add()
		w.remove(add())
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if w.count() != 1 || len(s.watched) != 1 {
			t.Errorf("%d streams, %d watches", w.count(), len(s.watched))
		}
		w.remove(open)
		time.Sleep(time.Second)
		stop()
		<-done
		if w.count() != 0 || len(s.watched) != 0 || len(w.queue) != 0 {
			t.Errorf("%d streams, %d watches, %d triggers in the queue", w.count(), len(s.watched), len(w.queue))
		}
	})
}

// A trigger takes a tenth of a processor at most, however long its readings take, and new ones of its namespace, which would
// be read some times before their own cost counts, begin with what the others cost.
func TestReadingsOfSecondsLeaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		open := func(name string, takes time.Duration) {
			s.set(func() { s.takes[name] = takes })
			asked, _ := s.Ask(trigger.Question{Metric: name})
			w.add(&trigger.Trigger{Question: trigger.Question{Namespace: "flood"}}, asked)
		}
		open("first", 3*time.Second)
		time.Sleep(10 * time.Minute)
		for i := range 10 {
			open(fmt.Sprint("next", i), 3*time.Second)
			time.Sleep(25 * time.Second)
			s.set(func() {
				if n := s.reads[fmt.Sprint("next", i)]; n != 1 {
					t.Errorf("%d readings of a new trigger in 25 s, want one in 30 s", n)
				}
			})
		}
		stop()
		<-done
		if n := s.reads["first"]; n < 20 || n > 36 {
			t.Errorf("%d readings of 3 s in a quarter of an hour, want one in 30 s", n)
		}
	})
}

// A stream that takes nothing keeps the newest state, and keeps nobody waiting.
func TestAStreamMayTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		open := func(name string) *watched {
			asked, _ := s.Ask(trigger.Question{Metric: name})
			return w.add(&trigger.Trigger{}, asked)
		}
		deaf, other := open("deaf"), open("other")
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(done); w.run(ctx) }()
		for _, value := range []float64{1, 0, 1, 0} {
			s.set(func() { s.values["deaf"], s.values["other"] = value, value })
			for late := time.After(10 * time.Second); ; {
				select {
				case active := <-other.news:
					if active != (value > 0) {
						continue // an earlier state, repeated
					}
				case <-late:
					t.Fatalf("nothing is said of %v", value)
				}
				break
			}
		}
		if active := <-deaf.news; active {
			t.Error("the state that waits is an old one")
		}
		stop()
		<-done
	})
}

// watchOne runs a watcher with one stream of a metric that begins at 0.
func watchOne(t *testing.T) (s *slowMetrics, news <-chan bool, stop func()) {
	s = newSlowMetrics()
	w := newWatcher(s)
	asked, _ := s.Ask(trigger.Question{Metric: "m"})
	watched := w.add(&trigger.Trigger{}, asked)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(done); w.run(ctx) }()
	if <-watched.news {
		t.Error("active at 0")
	}
	return s, watched.news, func() { cancel(); <-done }
}

// An operator drops the news if it has not noticed yet that the last replica has gone, or if another
// controller wrote the workload meanwhile. So the news is repeated soon after a crossing, and ever more
// seldom: each repetition costs the operator a request.
func TestNewsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, news, stop := watchOne(t)
		defer stop()
		time.Sleep(time.Second)
		last := time.Now()
		s.set(func() { s.values["m"] = 1 })
		for i, pause := range []time.Duration{0, 250, 500, 1000, 2000, 4000, 5000, 5000} {
			pause *= time.Millisecond
			active, after := <-news, time.Since(last)
			// A look late, and as much early after an announcement that was a look late.
			if !active || after < pause-lookEvery || after > pause+2*lookEvery {
				t.Errorf("announcement %d: %t, %s after the one before it, want %s", i, active, after, pause)
			}
			last = time.Now()
		}
		s.set(func() { s.values["m"] = 0 })
		for <-news {
		}
		if after := time.Since(last); after > readActive+2*lookEvery {
			t.Errorf("false was said after %s", after)
		}
	})
}

// A trigger whose value changes all the time is told of at most as often as it is read.
func TestFlappingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, news, stop := watchOne(t)
		defer stop()
		trues, over := 0, time.After(2500*time.Millisecond)
		flap := time.NewTicker(5 * time.Millisecond)
		for value := 1.0; ; {
			select {
			case active := <-news:
				if active {
					trues++
				}
				continue
			case <-flap.C:
				s.set(func() { s.values["m"] = value })
				value = 1 - value
				continue
			case <-over:
			}
			break
		}
		if trues == 0 || trues > 10 { // each second a crossing and two repetitions
			t.Errorf("the stream said true %d times", trues)
		}
	})
}
