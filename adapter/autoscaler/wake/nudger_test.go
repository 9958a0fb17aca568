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
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// plane has autoscalers, what their values ask for, an API server and a controller.
type plane struct {
	*Nudger
	t    *testing.T
	stop func()

	mu         sync.Mutex // guards the rest
	documents  map[string]*inspect.Autoscaler
	asked      map[string]int32 // what the values ask for
	held       map[string]explain.Prediction
	watched    map[*planeWatch]bool
	changed    map[string]bool // since the last Look
	ready      bool
	deaf       bool // the controller manager is down
	answer     func(*inspect.Autoscaler) (Outcome, error)
	nudges     []string
	takenBack  []string
	predicted  int
	events     []string
	disobeying bool                     // the controller keeps the replicas
	slow       map[string]time.Duration // to predict, by namespace
}

type planeWatch struct {
	of      *plane
	on      string
	changed func()
}

func (w *planeWatch) Follow() {}
func (w *planeWatch) End() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.watched, w)
}

func newPlane(t *testing.T, names ...string) *plane {
	p := &plane{t: t, documents: map[string]*inspect.Autoscaler{}, asked: map[string]int32{}, held: map[string]explain.Prediction{},
		watched: map[*planeWatch]bool{}, changed: map[string]bool{}, ready: true}
	p.Nudger = NewNudger(DefaultNudgeConfig(), NudgeParts{
		Look: p.look, Watch: p.watch, Predict: p.predict, Nudge: p.nudge, TakeBack: p.takeBack, Events: p,
		Ready:  func() (bool, string) { p.mu.Lock(); defer p.mu.Unlock(); return p.ready, "" },
		Logger: slog.New(slog.DiscardHandler),
	})
	for _, n := range names {
		p.put(n, func(*inspect.Autoscaler) {})
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	p.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(p.stop)
	return p
}

// put changes an autoscaler, or makes it: "namespace/name".
func (p *plane) put(key string, change func(*inspect.Autoscaler)) {
	p.mu.Lock()
	is := inspect.Autoscaler{UID: "u", MinReplicas: 1, MaxReplicas: 100, DesiredReplicas: 1, Generation: 1, ObservedGeneration: 1,
		Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "jobs"}}, Instant: &inspect.Instant{Annotation: "true"}}
	is.Namespace, is.Name, _ = strings.Cut(key, "/")
	if was := p.documents[key]; was != nil {
		is = *was
	} else {
		p.asked[key] = is.DesiredReplicas
	}
	change(&is)
	p.documents[key] = &is
	p.mu.Unlock()
	p.Changed(is.Namespace, is.Name, &is)
}

// push makes an autoscaler's values ask for a number of replicas.
func (p *plane) push(key string, asks int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[key], p.changed[key] = asks, true
}

func (p *plane) look() {
	p.mu.Lock()
	var call []func()
	for w := range p.watched {
		if p.changed[w.on] {
			call = append(call, w.changed)
		}
	}
	clear(p.changed)
	p.mu.Unlock()
	for _, one := range call {
		one()
	}
}

func (p *plane) watch(a *inspect.Autoscaler, _ *inspect.AutoscalerMetric, changed func()) (Watched, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &planeWatch{p, a.Namespace + "/" + a.Name, changed}
	p.watched[w] = true
	return w, nil
}

func (p *plane) predict(a *inspect.Autoscaler, _ *explain.Memory) explain.Prediction {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.predicted++
	if slow := p.slow[a.Namespace]; slow > 0 {
		p.mu.Unlock()
		time.Sleep(slow)
		p.mu.Lock()
	}
	key := a.Namespace + "/" + a.Name
	if held, is := p.held[key]; is && (held.Until.IsZero() || time.Now().Before(held.Until)) {
		held.Replicas = a.DesiredReplicas
		return held
	}
	return explain.Prediction{Replicas: p.asked[key], Because: "jobs"}
}

// nudge is the API server; the controller answers in 20 ms.
func (p *plane) nudge(ctx context.Context, a *inspect.Autoscaler) (int64, Outcome, error) {
	key := a.Namespace + "/" + a.Name
	p.mu.Lock()
	p.nudges = append(p.nudges, fmt.Sprint(key, "=", p.asked[key]))
	answer, is := p.answer, *p.documents[key]
	p.mu.Unlock()
	if answer != nil {
		if outcome, err := answer(a); outcome != Nudged {
			return 0, outcome, err
		}
	}
	p.put(key, func(is *inspect.Autoscaler) { is.Generation++ })
	go func() {
		time.Sleep(20 * time.Millisecond)
		p.sync(key)
	}()
	return is.Generation + 1, Nudged, ctx.Err()
}

// sync is a sync of the controller.
func (p *plane) sync(key string) {
	p.mu.Lock()
	deaf := p.deaf
	p.mu.Unlock()
	if deaf {
		return
	}
	p.put(key, func(is *inspect.Autoscaler) {
		is.ObservedGeneration = is.Generation
		if want := p.asked[key]; want != is.DesiredReplicas && !p.disobeying {
			is.DesiredReplicas, is.LastScaleTime = want, time.Now()
		}
	})
}

func (p *plane) takeBack(_ context.Context, a *inspect.Autoscaler) (Outcome, error) {
	p.mu.Lock()
	p.takenBack = append(p.takenBack, a.Name)
	p.mu.Unlock()
	p.Changed(a.Namespace, a.Name, nil) // it has neither annotation nor mark now
	return Nudged, nil
}

func (p *plane) WakeEvent(on *inspect.Autoscaler, _ bool, reason, _, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, on.Name+" "+reason+": "+message)
}

// after waits, and returns the nudges since the last call.
func (p *plane) after(d time.Duration) []string {
	time.Sleep(d)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.nudges
	p.nudges = nil
	return all
}

func (p *plane) want(about string, got []string, want ...string) {
	p.t.Helper()
	if !slices.Equal(got, want) {
		p.t.Errorf("%s: nudges %q, want %q", about, got, want)
	}
}

func (p *plane) state(key string) *inspect.Instant {
	p.mu.Lock()
	is := p.documents[key]
	p.mu.Unlock()
	return p.Describe(is)
}

func TestNudgesAtThePush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.want("nothing asks for other replicas", p.after(time.Minute))
		p.push("shop/web", 5)
		p.want("a look later", p.after(2*lookEvery), "shop/web=5")
		p.want("the same values", p.after(time.Minute))
		if is := p.state("shop/web"); is.Last == nil || is.Last.Want != 5 || is.Last.Answer != 5 || is.Last.Because != "jobs" ||
			is.Last.Answered.Sub(is.Last.At) > 40*time.Millisecond || is.State != inspect.InstantWatching {
			t.Errorf("shown: %+v %+v", is, is.Last)
		}
		p.push("shop/web", 2)
		p.want("down", p.after(2*lookEvery), "shop/web=2")
		if n := testutil.ToFloat64(p.count.answers.WithLabelValues("scaled")); n != 2 {
			t.Errorf("%v answers as expected, want 2", n)
		}
	})
}

// The outcome of a nudge for an autoscaler that is gone meanwhile is not shown: the next one of its name would have it.
func TestOutcomesEndWithTheirAutoscaler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.mu.Lock()
		p.answer = func(a *inspect.Autoscaler) (Outcome, error) {
			p.Changed(a.Namespace, a.Name, nil)
			time.Sleep(time.Second)
			return Failed, errors.New("of the former one")
		}
		p.mu.Unlock()
		p.push("shop/web", 5)
		p.want("one nudge", p.after(time.Minute), "shop/web=5")
		if is := p.state("shop/web"); is.Why != "" || is.State != "" {
			t.Errorf("shown: %+v", is)
		}
	})
}

func TestSlowPredictionsDelayNoOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.mu.Lock()
		p.slow = map[string]time.Duration{"flood": 200 * time.Millisecond}
		p.mu.Unlock()
		for i := range 50 {
			p.put(fmt.Sprint("flood/", i), func(*inspect.Autoscaler) {})
		}
		time.Sleep(time.Minute)
		for i := range 50 {
			p.push(fmt.Sprint("flood/", i), 1)
		}
		time.Sleep(2 * lookEvery)
		p.push("shop/web", 4)
		p.want("within a second", p.after(time.Second), "shop/web=4")
	})
}

// A flapping metric nudges once an interval, whatever it does in between.
func TestNudgesOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		for i := range int32(1000) {
			p.push("shop/web", 3+i/3%2)
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(p.after(0)); n < 3 || n > 11 {
			t.Errorf("%d nudges in 10 s, want one a second at most", n)
		}
	})
}

// All autoscalers together get 300 nudges at once and 20 a second over time, and namespaces take turns.
func TestNudgesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"small/one"}
		for i := range 500 {
			names = append(names, fmt.Sprintf("big/hpa-%03d", i))
		}
		p := newPlane(t, names...)
		p.after(time.Minute)
		for _, key := range names[1:] {
			p.push(key, 5)
		}
		if n := len(p.after(time.Second)); n < 300 || n > 321 {
			t.Errorf("%d nudges in the first second, want 320", n)
		}
		p.push("small/one", 5)
		next := p.after(5 * time.Second)
		if len(next) < 95 || len(next) > 101 || !slices.Contains(next[:20], "small/one=5") {
			t.Errorf("%d nudges in the next five seconds, want 100, one of the first of the other namespace: %q", len(next), next[:20])
		}
		p.after(6 * time.Second)
		for _, key := range names {
			if p.documents[key].DesiredReplicas != 5 {
				t.Fatalf("%s was not nudged", key)
			}
		}
	})
}

// A limit of the autoscaler holds the values back: a nudge comes when it ends.
func TestNudgesWhenALimitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.after(time.Second)
		p.mu.Lock()
		p.held["shop/web"] = explain.Prediction{Held: "stabilization", Until: time.Now().Add(3*time.Second + 7*time.Millisecond)}
		p.mu.Unlock()
		p.push("shop/web", 5)
		p.want("held", p.after(3*time.Second))
		if is := p.state("shop/web"); is.State != inspect.InstantHeld || is.Why != "stabilization" {
			t.Errorf("shown: %+v", is)
		}
		p.want("at its end", p.after(7*time.Millisecond+2*lookEvery), "shop/web=5")
	})
}

// What is not sure, or not Sluice's to decide, gives no nudge.
func TestDoesNotNudge(t *testing.T) {
	for why, one := range map[string]struct {
		change  func(*plane, *inspect.Autoscaler)
		state   inspect.InstantState
		message string
	}{
		"no generations": {func(_ *plane, a *inspect.Autoscaler) { a.Generation, a.ObservedGeneration = 0, 0 }, inspect.InstantIgnored, "HPAGeneration"},
		"KEDA's":         {func(_ *plane, a *inspect.Autoscaler) { a.ScaledObject = "web" }, inspect.InstantIgnored, "KEDA"},
		"another value":  {func(_ *plane, a *inspect.Autoscaler) { a.Instant = &inspect.Instant{Annotation: "yes"} }, inspect.InstantIgnored, `must be "true"`},
		"CPU alone":      {func(_ *plane, a *inspect.Autoscaler) { a.Metrics[0] = inspect.AutoscalerMetric{Source: "Resource"} }, inspect.InstantIgnored, "no metric"},
		"no value": {func(p *plane, _ *inspect.Autoscaler) {
			p.held["shop/web"] = explain.Prediction{Unknown: "no value"}
		}, inspect.InstantUnknown, "no value"},
		"not ready": {func(p *plane, _ *inspect.Autoscaler) { p.ready = false }, inspect.InstantWatching, ""},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane(t, "shop/web")
				p.after(time.Second)
				p.put("shop/web", func(a *inspect.Autoscaler) { one.change(p, a) })
				p.push("shop/web", 5)
				p.want(why, p.after(time.Minute))
				if is := p.state("shop/web"); is.State != one.state || !strings.Contains(is.Why, one.message) {
					t.Errorf("shown: %+v", is)
				}
				events := 0
				if why == "another value" {
					events = 1
				}
				if len(p.events) != events {
					t.Errorf("events: %q", p.events)
				}
			})
		})
	}
}

// A controller that does not answer is nudged once per sync that it should have made; one that decides
// otherwise is not asked again for the same values before it has looked by itself.
func TestNudgesAreNotRepeatedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.after(time.Second)
		p.mu.Lock()
		p.deaf = true
		p.mu.Unlock()
		p.push("shop/web", 5)
		if n := len(p.after(time.Minute)); n < 3 || n > 5 {
			t.Errorf("%d nudges of a controller that is down for a minute, want 4", n)
		}
		p.mu.Lock()
		p.deaf, p.disobeying = false, true
		p.mu.Unlock()
		if n := len(p.after(time.Minute)); n < 5 || n > 8 { // after 1, 2, 4, 8, 15, 15, ... seconds
			t.Errorf("%d nudges of a controller that decides otherwise, want 7", n)
		}
		if is := p.state("shop/web"); is.State != inspect.InstantHeld || !strings.Contains(is.Why, "decided otherwise") {
			t.Errorf("shown: %+v", is)
		}
	})
}

// A controller that has not looked at the newest spec yet will do so by itself: another replica has nudged it, or a
// person has changed it.
func TestNudgesNoControllerThatIsAboutToLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.after(time.Second)
		another := func(a *inspect.Autoscaler) { a.Generation++ }
		p.put("shop/web", another)
		p.push("shop/web", 5)
		p.want("before it looks", p.after(time.Second))
		p.sync("shop/web")
		p.want("once it has scaled", p.after(time.Minute))
		p.put("shop/web", another)
		p.push("shop/web", 7)
		p.want("before it looks again", p.after(time.Second))
		p.put("shop/web", func(a *inspect.Autoscaler) { a.ObservedGeneration = a.Generation }) // before the push
		p.want("once it has looked in vain", p.after(2*lookEvery), "shop/web=7")
		p.sync("shop/web")
		p.put("shop/web", another)
		p.push("shop/web", 9)
		p.want("while it may look", p.after(patienceOfController-time.Second))
		p.want("if it does not look", p.after(2*time.Second), "shop/web=9")
	})
}

// Another replica nudged for a push that this one has not heard of yet: its own values, which ask for what was before,
// are no reason to nudge.
func TestAnotherReplicaNudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.after(time.Second)
		p.put("shop/web", func(a *inspect.Autoscaler) { a.Generation++ })
		p.put("shop/web", func(a *inspect.Autoscaler) {
			a.ObservedGeneration, a.DesiredReplicas, a.LastScaleTime = a.Generation, 5, time.Now()
		})
		p.want("with older values", p.after(900*time.Millisecond))
		p.push("shop/web", 5) // the other replica's flush
		p.want("with the same values", p.after(time.Minute))
		p.push("shop/web", 6)
		p.want("at the next push", p.after(2*lookEvery), "shop/web=6")
	})
}

func TestAnswersOfTheAPIServer(t *testing.T) {
	for outcome, one := range map[Outcome]struct {
		least, most int // nudges in a minute
		state       inspect.InstantState
		event       string
	}{
		Forbidden:   {1, 2, inspect.InstantForbidden, "the error"},
		Refused:     {1, 2, inspect.InstantFailing, "the error"},
		Ineffective: {1, 2, inspect.InstantFailing, "the error"},
		Conflict:    {50, 61, "", ""},
		Failed:      {6, 7, inspect.InstantFailing, "the error"},
		Silent:      {8, 14, inspect.InstantFailing, ""},
	} {
		t.Run(string(outcome), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane(t, "shop/web")
				p.after(time.Second)
				p.mu.Lock()
				p.answer = func(*inspect.Autoscaler) (Outcome, error) { return outcome, errors.New("the error") }
				p.mu.Unlock()
				p.push("shop/web", 5)
				if n := len(p.after(time.Minute)); n < one.least || n > one.most {
					t.Errorf("%d nudges in a minute, want %d to %d", n, one.least, one.most)
				}
				if is := p.state("shop/web"); one.state != "" && (is.State != one.state || is.Why != "the error") {
					t.Errorf("shown: %+v", is)
				}
				if got := strings.Join(p.events, "\n"); !strings.Contains(got, one.event) || len(p.events) > 1 || (one.event == "") != (got == "") {
					t.Errorf("events: %q", p.events)
				}
				p.mu.Lock()
				p.answer = nil
				p.mu.Unlock()
				p.after(2 * time.Minute)
				if p.documents["shop/web"].DesiredReplicas != 5 {
					t.Error("not nudged once the API server applies it")
				}
			})
		})
	}
}

// The admission webhook of one namespace is down. Nudges of others do not wait.
func TestAFaultOfOneNamespaceDelaysNoNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web", "bank/web")
		p.after(time.Second)
		p.mu.Lock()
		p.answer = func(a *inspect.Autoscaler) (Outcome, error) {
			if a.Namespace == "shop" {
				return Failed, errors.New("failed calling webhook")
			}
			return Nudged, nil
		}
		p.mu.Unlock()
		p.push("shop/web", 5)
		p.after(2 * lookEvery)
		p.push("bank/web", 5)
		p.want("in the other namespace", p.after(2*lookEvery), "bank/web=5")
	})
}

// The admission webhook of one namespace hangs. However many autoscalers that has, one of another namespace is nudged.
func TestNudgesThatHangLeavePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"bank/web"}
		for i := range 2 * mostInFlight {
			keys = append(keys, fmt.Sprint("shop/web", i))
		}
		p := newPlane(t, keys...)
		p.after(time.Second)
		p.mu.Lock()
		p.answer = func(a *inspect.Autoscaler) (Outcome, error) {
			if a.Namespace == "shop" {
				time.Sleep(patience)
				return Failed, errors.New("no answer in time")
			}
			return Nudged, nil
		}
		p.mu.Unlock()
		for _, key := range keys[1:] {
			p.push(key, 5)
		}
		first := p.after(time.Second)
		if len(first) != mostOfOne {
			t.Errorf("%d nudges of the namespace are in flight, want %d", len(first), mostOfOne)
		}
		p.push("bank/web", 5)
		p.want("in the other namespace", p.after(time.Second), "bank/web=5")
		all := append(first, p.after(time.Minute)...)
		slices.Sort(all)
		if n := len(slices.Compact(all)); n != len(keys)-1 {
			t.Errorf("%d autoscalers of the namespace were nudged in a minute, want all", n)
		}
	})
}

// What nudges have left goes with the annotation.
func TestTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.after(time.Second)
		p.put("shop/web", func(a *inspect.Autoscaler) { a.Instant, a.Mark = nil, inspect.MarkedBehavior })
		p.push("shop/web", 5)
		p.want("without the annotation", p.after(time.Minute))
		if len(p.takenBack) != 1 {
			t.Errorf("taken back %d times", len(p.takenBack))
		}
		if len(p.watched) != 0 || len(p.followed) != 0 {
			t.Error("it is still followed")
		}
	})
}

// An autoscaler of the same name is another one.
func TestRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, "shop/web")
		p.after(time.Second)
		p.push("shop/web", 5)
		p.after(time.Second)
		p.put("shop/web", func(a *inspect.Autoscaler) {
			a.UID, a.DesiredReplicas, a.Generation, a.ObservedGeneration = "v", 1, 1, 1
		})
		p.want("the new one", p.after(2*lookEvery), "shop/web=5")
		p.Changed("shop", "web", nil)
		p.after(time.Second)
		if len(p.watched) != 0 {
			t.Error("watches outlive the autoscaler")
		}
	})
}
