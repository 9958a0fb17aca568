package keda

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

func (s *slowMetrics) Ask(q Question) (Asked, error) {
	return &slowMetric{slowMetrics: s, name: q.Metric}, nil
}

func (s *slowMetrics) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.watched {
		one.changed()
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

func (m *slowMetric) Value() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads[m.name]++
	takes := m.takes[m.name]
	m.mu.Unlock()
	time.Sleep(takes)
	m.mu.Lock()
	return m.values[m.name], nil
}

func (m *slowMetric) Watch(changed func()) {
	m.changed = changed
	m.set(func() { m.watched[m] = true })
}

func (m *slowMetric) Unwatch() { m.set(func() { delete(m.watched, m) }) }

// Triggers that take long to read, and change all the time, leave time for the others: each takes a
// tenth of a processor at most, all together a fifth and one reading a look.
func TestSlowTriggersLeaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		ctx, stop := context.WithCancel(t.Context())
		open := func(name string, takes time.Duration) *watched {
			s.set(func() { s.takes[name] = takes })
			asked, _ := s.Ask(Question{Metric: name})
			return w.add(&trigger{}, asked)
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

// A sample that activates an idle trigger is news for its stream within 50 ms, whenever it comes.
func TestACrossingIsNoticedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		asked, _ := s.Ask(Question{Metric: "jobs"})
		one := w.add(&trigger{}, asked)
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(done); w.run(ctx) }()
		<-one.news
		for i := range 20 {
			time.Sleep(time.Minute + time.Duration(i)*time.Millisecond)
			began := time.Now()
			s.set(func() { s.values["jobs"] = 1 })
			if active := <-one.news; !active || time.Since(began) > 50*time.Millisecond {
				t.Errorf("active %t after %s", active, time.Since(began))
			}
			s.set(func() { s.values["jobs"] = 0 })
			for active := true; active; {
				active = <-one.news
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
			asked, _ := s.Ask(Question{Metric: "m"})
			return w.add(&trigger{}, asked)
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

// A reading that takes long once, because another process has the processor, has no consequence.
func TestOneSlowReadingIsForgiven(t *testing.T) {
	one := &watched{cost: 5 * time.Microsecond}
	for _, took := range []time.Duration{time.Second, 5 * time.Microsecond, time.Second, time.Second} {
		one.cost = one.costAfter(took)
		if one.rest() > lookEvery {
			t.Errorf("after a reading of %s a trigger rests for %s", took, one.rest())
		}
	}
	for range 10 {
		one.cost = one.costAfter(time.Second)
	}
	if one.rest() != restFactor*time.Second {
		t.Errorf("after many readings of a second a trigger rests for %s", one.rest())
	}
}

// A stream that takes nothing keeps the newest state, and keeps nobody waiting.
func TestAStreamMayTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowMetrics()
		w := newWatcher(s)
		open := func(name string) *watched {
			asked, _ := s.Ask(Question{Metric: name})
			return w.add(&trigger{}, asked)
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
