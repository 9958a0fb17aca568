package wake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// town has autoscalers at zero, the values of their metrics by name, and an API server.
type town struct {
	*Waker
	t    *testing.T
	stop func()

	mu       sync.Mutex // guards the rest
	values   map[string]int64
	changes  map[string]int
	looks    int // calls of Look
	watched  []*townMetric
	turns    int           // of Run, while it is not ready
	lag      time.Duration // of an attempt whose context has ended
	reads    int
	notReady bool
	answer   func(*inspect.Autoscaler) (Outcome, error) // of the API server; nil: Woken
	slow     time.Duration
	slowRead map[string]time.Duration // by metric
	flying   int
	most     int // in flight at once
	attempts []string
	events   []string
	log      strings.Builder
}

func newTown(t *testing.T, documents ...*inspect.Autoscaler) *town {
	s := &town{t: t, values: map[string]int64{}, changes: map[string]int{}}
	s.Waker = New(Config{Enabled: true, Cooldown: 30 * time.Second}, Parts{
		Source: s, Scale: s.scale, Events: s,
		Ready: func() (bool, string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.turns++
			return !s.notReady, ""
		},
		Quantity: func(n metric.Number) string { return string(n.Append(nil)) },
		Logger:   slog.New(slog.NewTextHandler(lockedWriter{s}, nil)),
	})
	for _, document := range documents {
		s.Changed(document.Namespace, document.Name, document)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	s.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(s.stop)
	return s
}

type lockedWriter struct{ of *town }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.of.log.Write(p)
}

func (s *town) scale(ctx context.Context, a *inspect.Autoscaler) (Outcome, error) {
	s.mu.Lock()
	s.attempts = append(s.attempts, a.Namespace+"/"+a.Name)
	s.flying++
	s.most = max(s.most, s.flying)
	answer, slow := s.answer, s.slow
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
	}()
	select {
	case <-ctx.Done():
		time.Sleep(s.lag)
		return Silent, ctx.Err()
	case <-time.After(slow):
	}
	if answer == nil {
		return Woken, nil
	}
	return answer(a)
}

func (s *town) WakeEvent(on *inspect.Autoscaler, warning bool, reason, about, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf("%s %v %s: %s", on.Name, warning, reason, message))
}

func (s *town) Ask(_ *inspect.Autoscaler, m *inspect.AutoscalerMetric) (Asked, error) {
	return &townMetric{town: s, name: m.Name}, nil
}

func (s *town) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	for _, m := range s.watched {
		if now := s.changes[m.name]; now != m.seen {
			m.seen = now
			m.changed()
		}
	}
}

type townMetric struct {
	*town
	name    string
	seen    int
	changed func()
}

func (m *townMetric) Value() (metric.Number, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slow := m.slowRead[m.name]; slow > 0 {
		m.mu.Unlock()
		time.Sleep(slow)
		m.mu.Lock()
	}
	m.reads++
	v, is := m.values[m.name]
	if !is {
		return metric.Number{}, metric.NotFoundf("no series of %q: none was ever received", m.name)
	}
	return metric.Int(v), nil
}

func (m *townMetric) Watch(changed func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed, m.seen = changed, m.changes[m.name]
	m.watched = append(m.watched, m)
}

func (m *townMetric) Unwatch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched = slices.DeleteFunc(m.watched, func(x *townMetric) bool { return x == m })
}

// push sets a metric's value, and lets some looks pass.
func (s *town) push(name string, value int64) {
	s.set(func() { s.values[name], s.changes[name] = value, s.changes[name]+1 })
	time.Sleep(2 * lookEvery)
	synctest.Wait()
}

func (s *town) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// failIn has all attempts in a namespace fail after a time. Others wake their target.
func (s *town) failIn(namespace string, after time.Duration, why string) {
	s.set(func() {
		s.answer = func(a *inspect.Autoscaler) (Outcome, error) {
			if a.Namespace != namespace {
				return Woken, nil
			}
			time.Sleep(after)
			return Failed, errors.New(why)
		}
	})
}

func (s *town) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// tried returns the attempts so far, told the Events.
func (s *town) tried() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attempts)
}

func (s *town) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// wantAttempts compares the attempts so far.
func (s *town) wantAttempts(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.attempts, want) {
		s.t.Fatalf("attempts %q, want %q", s.attempts, want)
	}
}

func (s *town) wantCount(want float64, result string) {
	s.t.Helper()
	if got := testutil.ToFloat64(s.count.wakes.WithLabelValues(result)); got != want {
		s.t.Errorf("sluice_wakes_total{result=%q} is %v, want %v", result, got, want)
	}
}

func (s *town) wantEvent(start string) {
	s.t.Helper()
	if !slices.ContainsFunc(s.told(), func(e string) bool { return strings.HasPrefix(e, start) }) {
		s.t.Errorf("Events %q, want %q", s.told(), start)
	}
}

func (s *town) logged(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.log.String(), text)
}

// atZero is an autoscaler whose controller has scaled its target to zero.
func atZero(name string, change ...func(*inspect.Autoscaler)) *inspect.Autoscaler {
	a := &inspect.Autoscaler{
		Namespace: "shop", Name: name, UID: "u-" + name, TargetKind: "Deployment", TargetName: name, MaxReplicas: 5,
		Wake:    &inspect.Wake{Annotation: "true"},
		Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: name + "-jobs"}},
		Conditions: []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "True"},
			{Type: "ScaledToZero", Status: "True"}},
	}
	for _, one := range change {
		one(a)
	}
	return a
}

// running is the autoscaler after its controller has seen replicas.
func running(a *inspect.Autoscaler) { a.CurrentReplicas, a.DesiredReplicas = 0, 1 }

func TestAPushWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.push("worker-jobs", 0)
		s.wantAttempts()
		s.push("worker-jobs", 5)
		s.wantAttempts("shop/worker")
		want := []string{`worker false Woken: Set Deployment/worker from 0 to 1 replica: External metric "worker-jobs" is 5. The autoscaler sets all others.`}
		if !slices.Equal(s.told(), want) {
			t.Errorf("Events %q, want %q", s.told(), want)
		}
		// Its status is up to a sync old.
		s.push("worker-jobs", 9)
		time.Sleep(14 * time.Second)
		s.Changed("shop", "worker", atZero("worker", running))
		s.push("worker-jobs", 12)
		time.Sleep(time.Hour)
		s.wantAttempts("shop/worker")
		s.wantCount(1, "woken")
		if d := s.Describe(atZero("worker", running)); d.State != inspect.WakeRunning || d.Last.IsZero() {
			t.Errorf("document %+v", d)
		}
	})
}

// A target that is positive already when its autoscaler says that it is at zero, or when the annotation
// is set, is woken too.
func TestAPositiveValueWakesWithoutAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker", running))
		s.push("worker-jobs", 5)
		s.wantAttempts()
		s.Changed("shop", "worker", atZero("worker"))
		time.Sleep(time.Millisecond)
		s.wantAttempts("shop/worker")
	})
}

func TestOthersAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*inspect.Autoscaler){
		"the target has replicas":      running,
		"somebody else set it to zero": func(a *inspect.Autoscaler) { a.Conditions[1].Status = "False" },
		"scaling is disabled": func(a *inspect.Autoscaler) {
			a.Conditions[0] = inspect.AutoscalerCondition{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled"}
		},
		"minReplicas is 1":     func(a *inspect.Autoscaler) { a.MinReplicas = 1 },
		"annotated with false": func(a *inspect.Autoscaler) { a.Wake.Annotation = "false" },
		"a metric of pods":     func(a *inspect.Autoscaler) { a.Metrics[0].Source = "Pods" },
		"a resource":           func(a *inspect.Autoscaler) { a.Metrics[0].Source = "Resource" },
		"it may not scale up":  func(a *inspect.Autoscaler) { a.ScaleUp = &inspect.ScalingRules{SelectPolicy: "Disabled"} },
		"KEDA's":               func(a *inspect.Autoscaler) { a.ScaledObject = "worker" },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTown(t, atZero("worker", change))
			s.push("worker-jobs", 5)
			time.Sleep(time.Minute)
			if len(s.tried()) > 0 {
				t.Errorf("%s: woken", name)
			}
			if d := s.Describe(atZero("worker", change)); d.State == inspect.WakeArmed {
				t.Errorf("%s: document %+v", name, d)
			}
		})
	}
}

func TestAnUnknownValueWakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		time.Sleep(time.Minute)
		s.wantAttempts()
		d := s.Describe(atZero("worker"))
		if d.State != inspect.WakeArmed || !strings.Contains(d.Why, "none was ever received") {
			t.Errorf("document %+v", d)
		}
	})
}

func TestNothingIsWokenBeforeValuesAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.set(func() { s.notReady = true })
		s.Changed("shop", "worker", atZero("worker"))
		s.push("worker-jobs", 5)
		time.Sleep(time.Minute)
		s.wantAttempts()
		s.set(func() { s.notReady = false })
		time.Sleep(2 * lookEvery)
		s.wantAttempts("shop/worker")
	})
}

// Without an autoscaler at zero nothing is looked at.
func TestNothingRunsWithoutAnAutoscalerAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.push("worker-jobs", 0)
		s.Changed("shop", "worker", atZero("worker", running))
		synctest.Wait()
		before := s.looked()
		time.Sleep(time.Hour)
		s.Changed("shop", "worker", nil)
		time.Sleep(time.Hour)
		if now := s.looked(); now != before {
			t.Errorf("%d looks", now-before)
		}
	})
}

// Not even a timer runs.
func TestNothingTicksWithoutAnAutoscalerAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.set(func() { s.notReady = true })
		s.Changed("shop", "worker", atZero("worker", running))
		time.Sleep(time.Hour)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.turns > 3 {
			t.Errorf("%d turns", s.turns)
		}
	})
}

// A metric goes up and down ten times a second, and the autoscaler says zero again at once: the target is
// woken once per cooldown. A new autoscaler of the same target shortens nothing.
func TestACooldownBoundsAFlappingMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		const minutes = 10
		for i := range minutes * 60 * 10 {
			s.push("worker-jobs", int64(i%2))
			time.Sleep(100*time.Millisecond - 2*lookEvery)
			switch i % 50 {
			case 10:
				s.Changed("shop", "worker", atZero("worker", running))
			case 20:
				s.Changed("shop", "worker", nil)
			case 30:
				s.Changed("shop", "worker", atZero("worker", func(a *inspect.Autoscaler) { a.UID = fmt.Sprint("u-", i) }))
			}
		}
		if n := len(s.tried()); n < minutes || n > 2*minutes {
			t.Errorf("%d attempts in %d minutes, want one per 30 s at most", n, minutes)
		}
		if n := testutil.ToFloat64(s.count.wakes.WithLabelValues("cooldown")); n == 0 {
			t.Error("no cooldown was counted")
		}
	})
}

// Another replica of Sluice has woken the target, or the autoscaler's controller: that begins the
// cooldown here, too.
func TestATargetThatHasReplicasBeginsTheCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.set(func() {
			s.answer = func(*inspect.Autoscaler) (Outcome, error) { return Awake, errors.New("has replicas") }
		})
		s.push("worker-jobs", 5)
		time.Sleep(29 * time.Second)
		s.wantAttempts("shop/worker")
		if len(s.told()) > 0 {
			t.Errorf("Events %q", s.told())
		}
		s.wantCount(1, "awake")
	})
}

// A thousand autoscalers wake at once. Few attempts are in flight, and a neighbour doesn't wait for all.
func TestAFloodIsBoundedAndNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.set(func() { s.slow = 100 * time.Millisecond })
		const many = 1000
		for i := range many {
			autoscaler := atZero(fmt.Sprint("w", i), func(a *inspect.Autoscaler) { a.Metrics[0].Name = "jobs" })
			s.Changed("shop", autoscaler.Name, autoscaler)
		}
		synctest.Wait()
		s.push("jobs", 1)
		s.Changed("bank", "worker", atZero("worker", func(a *inspect.Autoscaler) { a.Namespace = "bank" }))
		s.push("worker-jobs", 1)
		time.Sleep(20 * time.Second) // less than the cooldown: these targets stay at zero
		if s.most > mostOfOne+1 || len(s.tried()) != many+1 {
			t.Errorf("%d attempts, %d of them in flight at once; want %d and %d", len(s.tried()), s.most, many+1, mostOfOne+1)
		}
		if at := slices.Index(s.tried(), "bank/worker"); at < 0 || at > 3*mostInFlight {
			t.Errorf("another namespace's turn was number %d", at)
		}
		s.wantCount(many+1, "woken")
	})
}

// A namespace whose autoscalers take long to read, such as those of many metrics with many series, is left out for a while.
func TestSlowReadsDelayNoOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.set(func() { s.slowRead = map[string]time.Duration{} })
		var flood []string
		for i := range 50 {
			name := fmt.Sprint("flood-", i)
			s.set(func() { s.slowRead[name+"-jobs"], s.values[name+"-jobs"] = 200*time.Millisecond, 0 })
			s.Changed("flood", name, atZero(name, func(a *inspect.Autoscaler) { a.Namespace = "flood" }))
			flood = append(flood, name+"-jobs")
		}
		for n := range 5 {
			time.Sleep(time.Minute)
			s.set(func() {
				for _, name := range flood {
					s.changes[name]++
				}
			})
			time.Sleep(2 * lookEvery)
			began := time.Now()
			s.push("worker-jobs", 1)
			for len(s.tried()) == n {
				time.Sleep(lookEvery)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the target of another namespace is woken after %v", took)
			}
			s.push("worker-jobs", 0)
		}
	})
}

// Autoscalers that come one after the other have the time of their namespace: each would be read some times before its own
// cost counts.
func TestNewAutoscalersHaveTheTimeOfTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.set(func() { s.slowRead = map[string]time.Duration{} })
		const seconds = 300
		for i := range seconds {
			name := fmt.Sprint("flood-", i)
			s.set(func() { s.slowRead[name+"-jobs"], s.values[name+"-jobs"] = 200*time.Millisecond, 0 })
			s.Changed("flood", name, atZero(name, func(a *inspect.Autoscaler) { a.Namespace = "flood" }))
			time.Sleep(time.Second)
		}
		s.set(func() {
			if most := seconds*5/partOfTime + 10; s.reads > most || s.reads < most/2 {
				t.Errorf("%d reads of 200 ms in %d s, want %d at most", s.reads, seconds, most)
			}
		})
	})
}

// A namespace does not rest after one slow read: another process may have had the processor.
func TestOneSlowReadIsNoReasonToRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare()
		for _, took := range []time.Duration{20 * time.Microsecond, 30 * time.Millisecond} {
			began := time.Now()
			time.Sleep(took)
			if s.spend("shop", began); s.rests("shop", time.Now()) {
				t.Errorf("the namespace rests after a read of %v", took)
			}
		}
	})
}

// The API server does not answer for two minutes.
func TestAnOutageIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.set(func() { s.slow = time.Hour })
		for i := range 100 {
			autoscaler := atZero(fmt.Sprint("w", i), func(a *inspect.Autoscaler) { a.Metrics[0].Name = "jobs" })
			s.Changed("shop", autoscaler.Name, autoscaler)
		}
		s.push("jobs", 1)
		time.Sleep(patience + 2*pauseSilent) // attempts that fail at once begin one pause
		if n := len(s.tried()); n != 2*mostOfOne {
			t.Errorf("%d attempts after the first pause, want %d", n, 2*mostOfOne)
		}
		time.Sleep(2*time.Minute - patience - 2*pauseSilent)
		if n := len(s.tried()); n < 3*mostOfOne || n > 24*mostOfOne {
			t.Errorf("%d attempts", n)
		}
		if n := s.logged("level=WARN"); n != 1 {
			t.Errorf("%d warnings: %s", n, s.log.String())
		}
		if d := s.Describe(atZero("w0", func(a *inspect.Autoscaler) { a.Metrics[0].Name = "jobs" })); d.State != inspect.WakeFailing && d.State != inspect.WakeArmed {
			t.Errorf("document %+v", d)
		}
		s.set(func() { s.slow = 0 })
		time.Sleep(mostSilent + patience + time.Second)
		s.wantCount(100, "woken")
		if n := s.logged("answers attempts to wake targets again"); n != 1 {
			t.Errorf("%d lines say that it answers again", n)
		}
	})
}

// The admission webhook of one namespace is down. Its autoscalers are tried again after a pause each, and told of;
// those of others do not wait.
func TestAFaultOfOneNamespaceDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.failIn("shop", 0, "failed calling webhook")
		s.push("worker-jobs", 5)
		for i := range 20 {
			name := fmt.Sprint("w", i)
			s.Changed("bank", name, atZero(name, func(a *inspect.Autoscaler) { a.Namespace = "bank" }))
			s.push(name+"-jobs", 1)
			s.wantCount(float64(i+1), "woken")
		}
		time.Sleep(time.Minute)
		s.wantEvent("worker true CannotWake: Cannot set the first replica of Deployment/worker: failed calling webhook.")
		if n := s.logged("level=WARN"); n != 1 {
			t.Errorf("%d warnings, want 1: %s", n, s.log.String())
		}
		tried := slices.DeleteFunc(s.tried(), func(of string) bool { return of != "shop/worker" })
		if n := len(tried); n < 6 || n > 7 {
			t.Errorf("%d attempts in the namespace in a minute, want one each %s", n, pauseFailed)
		}
	})
}

// The admission webhook of one namespace hangs. However many autoscalers that has, one of another namespace wakes at
// once.
func TestAttemptsThatHangLeavePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.failIn("shop", patience, "no answer in time")
		for i := range 50 {
			hangs := atZero(fmt.Sprint("w", i), func(a *inspect.Autoscaler) { a.Metrics[0].Name = "jobs" })
			s.Changed("shop", hangs.Name, hangs)
		}
		s.push("jobs", 1)
		for i := range 20 {
			name := fmt.Sprint("b", i)
			s.Changed("bank", name, atZero(name, func(a *inspect.Autoscaler) { a.Namespace = "bank" }))
			s.push(name+"-jobs", 1)
			s.wantCount(float64(i+1), "woken")
		}
		time.Sleep(time.Minute)
		tried := map[string]bool{}
		for _, one := range s.tried() {
			tried[one] = true
		}
		if len(tried) != 50+20 {
			t.Errorf("%d autoscalers were tried in a minute, want all of both namespaces", len(tried))
		}
	})
}

func TestAMissingRightIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"), atZero("other"))
		s.set(func() {
			s.answer = func(*inspect.Autoscaler) (Outcome, error) { return Forbidden, errors.New("the right is missing") }
		})
		s.push("worker-jobs", 5)
		s.push("other-jobs", 5)
		time.Sleep(10 * time.Minute)
		s.Changed("shop", "worker", atZero("worker", running))
		synctest.Wait()
		s.Changed("shop", "worker", atZero("worker"))
		time.Sleep(time.Minute)
		if n := len(s.told()); n != 2 || !strings.Contains(s.told()[0], "worker true CannotWake: Cannot set the first replica of Deployment/worker: the right is missing.") {
			t.Errorf("Events %q, want one on each autoscaler", s.told())
		}
		if n := s.logged("level=WARN"); n != 1 {
			t.Errorf("%d warnings, want 1: %s", n, s.log.String())
		}
		if d := s.Describe(atZero("worker")); d.State != inspect.WakeForbidden || d.Why != "the right is missing" {
			t.Errorf("document %+v", d)
		}
		if n := len(s.tried()); n > 2*13 {
			t.Errorf("%d attempts in 11 minutes, want one a minute for each", n)
		}
		s.set(func() { s.answer = nil })
		time.Sleep(pauseRefused + time.Second)
		s.wantEvent("worker false Woken")
		s.wantEvent("other false Woken")
	})
}

func TestAttemptsThatFailAreRepeated(t *testing.T) {
	for outcome, within := range map[Outcome]time.Duration{Gone: pauseRefused, Refused: pauseRefused, Conflict: pauseConflict, Failed: pauseFailed, Silent: pauseSilent} {
		synctest.Test(t, func(t *testing.T) {
			s := newTown(t, atZero("worker"))
			s.set(func() {
				s.answer = func(*inspect.Autoscaler) (Outcome, error) { return outcome, errors.New("failed") }
			})
			s.push("worker-jobs", 5)
			s.wantAttempts("shop/worker")
			if d := s.Describe(atZero("worker")); d.State != inspect.WakeFailing || d.Why != "failed" {
				t.Errorf("%s: document %+v", outcome, d)
			}
			s.set(func() { s.answer = nil })
			time.Sleep(within + lookEvery)
			s.wantAttempts("shop/worker", "shop/worker")
			s.wantCount(1, string(outcome))
			s.wantCount(1, "woken")
		})
	}
}

// Autoscalers change while they wait for their turn.
func TestAQueuedAutoscalerIsLookedAtAgain(t *testing.T) {
	for name, change := range map[string]func(*town){
		"the annotation is removed": func(s *town) { s.Changed("shop", "late", nil) },
		"the target has replicas":   func(s *town) { s.Changed("shop", "late", atZero("late", running)) },
		"the value is 0 again":      func(s *town) { s.push("late-jobs", 0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTown(t)
			s.set(func() { s.slow = time.Second })
			for i := range mostOfOne {
				autoscaler := atZero(fmt.Sprint("w", i), func(a *inspect.Autoscaler) { a.Metrics[0].Name = "jobs" })
				s.Changed("shop", autoscaler.Name, autoscaler)
			}
			s.push("jobs", 1)
			s.Changed("shop", "late", atZero("late"))
			s.push("late-jobs", 1)
			change(s)
			time.Sleep(time.Minute)
			if slices.Contains(s.tried(), "shop/late") {
				t.Errorf("%s: woken", name)
			}
		})
	}
}

// An autoscaler is made anew while an attempt for its predecessor is in flight.
func TestARecreatedAutoscalerIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.set(func() { s.slow = time.Second })
		s.push("worker-jobs", 5)
		s.Changed("shop", "worker", nil)
		again := atZero("worker", func(a *inspect.Autoscaler) { a.UID, a.Metrics[0].Name = "u2", "rows" })
		s.Changed("shop", "worker", again)
		time.Sleep(40 * time.Second)
		s.wantAttempts("shop/worker")
		s.push("worker-jobs", 6)
		s.wantAttempts("shop/worker")
		s.push("rows", 1)
		s.wantAttempts("shop/worker", "shop/worker")
	})
}

func TestRunEndsWithItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t, atZero("worker"))
		s.set(func() { s.slow, s.lag = time.Hour, time.Second })
		s.push("worker-jobs", 5)
		s.stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.flying != 0 {
			t.Error("an attempt outlives Run")
		}
	})
}
