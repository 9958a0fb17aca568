package autoscaler

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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// town has autoscalers, and the values of metrics by name.
type town struct {
	*Watcher
	next time.Duration // until the next round of passes

	mu        sync.Mutex // guards the rest in tests that call Run
	documents []*inspect.Autoscaler
	values    map[string]Reading
	reads     int
	slow      map[string]time.Duration // to read, by metric
	slowHint  time.Duration
	events    []string
	log       strings.Builder
	notReady  bool
	held      []explain.Held
	heldAsked *inspect.Autoscaler // the last question of HeldBack
	heldCalls int
}

func newTown(documents ...*inspect.Autoscaler) *town {
	t := &town{documents: documents, values: map[string]Reading{}, next: interval}
	t.Watcher = New(Parts{
		List: func(namespace string) (all []*inspect.Autoscaler) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for _, document := range t.documents {
				if namespace == "" || document.Namespace == namespace {
					all = append(all, document)
				}
			}
			return all
		},
		Begin: func() Reader { return t },
		Ready: func() bool {
			t.mu.Lock()
			defer t.mu.Unlock()
			return !t.notReady
		},
		Quantity: func(n metric.Number) string { return string(n.Append(nil)) },
		Hint:     t.hint,
		Events:   t,
		Logger:   slog.New(slog.NewTextHandler(&t.log, nil)),
		NotAsked: func(string) error { return nil },
	})
	return t
}

func (t *town) Read(_ *inspect.Autoscaler, m *inspect.AutoscalerMetric) (Reading, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if slow := t.slow[m.Name]; slow > 0 {
		t.mu.Unlock()
		time.Sleep(slow)
		t.mu.Lock()
	}
	r, ok := t.values[m.Name]
	if !ok || r.Values == 0 {
		return r, metric.NotFoundf("no series of %q: none was ever received", m.Name)
	}
	return r, nil
}

// Autoscalers are all autoscalers of a namespace (empty: of all).
func (t *town) Autoscalers(namespace string) []inspect.Autoscaler {
	return t.Watcher.Autoscalers(inspect.Query{Namespace: namespace, Most: inspect.MaxMost}).Items
}

func (t *town) HeldBack(a *inspect.Autoscaler) []explain.Held {
	t.heldAsked = a
	t.heldCalls++
	return t.held
}

func (t *town) hint(_ *inspect.Autoscaler, m *inspect.AutoscalerMetric) string {
	time.Sleep(t.slowHint)
	if m.Name == "http_reqests" {
		return `Did you mean "http_requests"?`
	}
	return ""
}

func (t *town) AutoscalerEvent(on *inspect.Autoscaler, warning bool, reason, about, message string) {
	t.events = append(t.events, fmt.Sprintf("%s %v %s: %s", on.Name, warning, reason, message))
}

// passes lets virtual time pass, with the rounds that Run would do.
func (t *town) passes(d time.Duration) {
	for ; d >= t.next; t.next = intervalAfter(t.round(time.Now())) {
		time.Sleep(t.next)
		d -= t.next
	}
	time.Sleep(d)
	t.next -= d
}

// run runs the watcher until the returned function is called.
func (t *town) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = t.Run(ctx) }()
	return func() { cancel(); <-done }
}

// set changes what the watcher sees, and returns the number of reads so far.
func (t *town) set(change func()) (reads int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	return t.reads
}

// wait lets virtual time pass, and returns the number of reads so far.
func (t *town) wait(d time.Duration) (reads int) {
	time.Sleep(d)
	synctest.Wait()
	return t.set(func() {})
}

// logged returns the number of lines with a text.
func (t *town) logged(text string) int { return strings.Count(t.log.String(), text) }

func pods(name string) inspect.AutoscalerMetric {
	return inspect.AutoscalerMetric{Source: "Pods", Name: name, TargetType: "AverageValue", Target: "10"}
}

func external(name, selector string) inspect.AutoscalerMetric {
	return inspect.AutoscalerMetric{Source: "External", Name: name, Selector: selector, TargetType: "Value", Target: "10"}
}

func hpa(name string, metrics ...inspect.AutoscalerMetric) *inspect.Autoscaler {
	return &inspect.Autoscaler{Namespace: "shop", Name: name, UID: "u-" + name, TargetKind: "Deployment", TargetName: name,
		CurrentReplicas: 2, Metrics: metrics}
}

func TestAMissingMetricIsToldOnceAndAtItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("http_reqests")))
		s.passes(grace)
		if len(s.events) != 0 {
			t.Fatalf("told during the grace period: %q", s.events)
		}
		s.passes(time.Hour)
		want := `web true MetricMissing: Pods metric "http_reqests" has no value: no series of "http_reqests": none was ever received. Did you mean "http_requests"? More: sluice explain hpa/web -n shop`
		if !slices.Equal(s.events, []string{want}) {
			t.Fatalf("Events %q, want %q", s.events, want)
		}
		if n := s.logged("level=WARN"); n != 1 {
			t.Fatalf("%d warnings, want 1: %s", n, s.log.String())
		}
		m := s.Autoscalers("shop")[0].Metrics[0]
		if !m.Asked || !m.Missing || m.Since.IsZero() || !strings.Contains(m.Why, "none was ever received") || m.Value != "" {
			t.Errorf("document %+v", m)
		}

		s.values["http_reqests"] = Reading{Sum: metric.Int(24), Values: 2, Pods: 2}
		s.passes(interval)
		if len(s.events) != 2 || !strings.HasPrefix(s.events[1], `web false MetricAvailable: Pods metric "http_reqests" has a value again after 1h`) ||
			!strings.HasSuffix(s.events[1], ": 12") {
			t.Errorf("Events %q", s.events)
		}
		if m := s.Autoscalers("")[0].Metrics[0]; m.Missing || m.Value != "12" || m.Values != 2 || !m.Since.IsZero() || m.Why != "" {
			t.Errorf("document %+v", m)
		}
		s.passes(time.Hour)
		if len(s.events) != 2 {
			t.Errorf("Events without a change: %q", s.events)
		}
	})
}

// A pod takes a while to push: nobody is told of a metric that is missing for less than the grace
// period.
func TestNobodyIsToldOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("x")))
		s.passes(grace)
		s.values["x"] = Reading{Sum: metric.Int(1), Values: 1, Pods: 1}
		s.passes(time.Minute)
		delete(s.values, "x")
		s.passes(20 * time.Second)
		s.values["x"] = Reading{Sum: metric.Int(1), Values: 1, Pods: 1}
		s.passes(time.Minute)
		if len(s.events) != 0 || s.log.Len() != 0 {
			t.Errorf("Events %q, log %s", s.events, s.log.String())
		}
	})
}

func TestAFlappingMetricIsToldSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("x")))
		for range 60 { // an hour
			delete(s.values, "x")
			s.passes(45 * time.Second)
			s.values["x"] = Reading{Sum: metric.Int(1), Values: 1, Pods: 1}
			s.passes(15 * time.Second)
		}
		if n := len(s.events); n < 4 || n > 2*int(time.Hour/repeat) {
			t.Errorf("%d Events in an hour", n)
		}
		if n := s.logged("level=WARN"); n > int(time.Hour/repeat) {
			t.Errorf("%d warnings in an hour", n)
		}
	})
}

// Many autoscalers that lose their metrics at once make a bounded number of notices per round, and
// none is lost. Autoscalers of one namespace and metric share a line of the log.
func TestManyMissingMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown()
		for i := range 3 * maxNotices {
			s.documents = append(s.documents, hpa(fmt.Sprintf("web-%03d", i), pods(fmt.Sprintf("m%d", i%5))))
		}
		s.passes(grace + interval)
		if len(s.events) != maxNoticesEach {
			t.Errorf("%d Events in a round, want %d", len(s.events), maxNoticesEach)
		}
		s.passes(time.Minute)
		if len(s.events) != len(s.documents) {
			t.Errorf("%d Events, want %d", len(s.events), len(s.documents))
		}
		if n := s.logged("level=WARN"); n != 5 {
			t.Errorf("%d warnings, want one per metric", n)
		}
	})
}

func TestWhoIsNotAsked(t *testing.T) {
	active := []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "True"}}
	for _, c := range []struct {
		name     string
		document *inspect.Autoscaler
		change   func(*town)
		why      string // empty: asked
		missing  bool
	}{
		{name: "cpu", document: hpa("a", inspect.AutoscalerMetric{Source: "Resource", Name: "cpu"}), why: ""},
		{name: "missing", document: hpa("a", pods("x")), missing: true},
		{name: "KEDA", document: hpa("a", external("s0-x", "scaledobject.keda.sh/name=a")), why: "KEDA"},
		{name: "an external beside KEDA's", document: hpa("a", external("x", "queue=a")), missing: true},
		{name: "another server of externals", document: hpa("a", external("x", "")), change: func(t *town) {
			t.parts.NotAsked = func(source string) error { return errors.New("another server answers " + source) }
		}, why: "another server answers External"},
		{name: "another provider", document: hpa("a", external("x", "")), change: func(t *town) {
			t.parts.Provider = func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (string, string) { return "datadog", "is away" }
		}, why: "the provider datadog answers this metric"},
		{name: "another server of custom metrics", document: hpa("a", pods("x")), change: func(t *town) {
			t.parts.NotAsked = func(source string) error { return errors.New("another server answers " + source) }
		}, why: "another server answers Pods"},
		{name: "another server, by the status", document: func() *inspect.Autoscaler {
			a := hpa("a", pods("x"))
			a.Metrics[0].Current, a.Conditions = "7", active
			return a
		}(), why: "another server"},
		{name: "one of several is missing", document: func() *inspect.Autoscaler {
			a := hpa("a", pods("x"), pods("y"))
			a.Metrics[1].Current, a.Conditions = "7", active
			return a
		}(), missing: true},
		{name: "a stale status", document: func() *inspect.Autoscaler {
			a := hpa("a", pods("x"))
			a.Metrics[0].Current = "7"
			a.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetPodsMetric"}}
			return a
		}(), missing: true},
		{name: "scaled to zero", document: func() *inspect.Autoscaler {
			a := hpa("a", pods("x"))
			a.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled", Message: "scaling is disabled since the replica count of the target is zero"}}
			return a
		}(), why: "replica count of the target is zero"},
		{name: "no pods yet", document: func() *inspect.Autoscaler {
			a := hpa("a", pods("x"))
			a.CurrentReplicas = 0
			return a
		}(), why: "Deployment/a has no pods"},
		{name: "all pods of the namespace", document: hpa("a", pods("x")), change: func(t *town) { t.values["x"] = Reading{Sum: metric.Int(6), Values: 3} },
			why: "owner references"},
		{name: "some pods", document: hpa("a", pods("x")), change: func(t *town) { t.values["x"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 5} },
			why: "2 of 5 pods have no value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTown(c.document)
			if c.change != nil {
				c.change(s)
			}
			s.round(time.Now())
			m := s.Autoscalers("")[0].Metrics[0]
			if m.Missing != c.missing {
				t.Errorf("missing %v, want %v: %s", m.Missing, c.missing, m.Why)
			}
			if !c.missing && !strings.Contains(m.Why, c.why) {
				t.Errorf("why %q, want %q", m.Why, c.why)
			}
			if routed := c.name == "another provider"; routed != (m.Provider == "datadog" && m.ProviderFault == "is away") {
				t.Errorf("the provider is %q, which %q", m.Provider, m.ProviderFault)
			}
			if s.documents[0].Metrics[0].Why != "" {
				t.Error("the view's document was changed")
			}
		})
	}
}

func TestMetricsOfAutoscalers(t *testing.T) {
	s := newTown(hpa("web", pods("here"), pods("slow"), pods("gone"), external("q", "queue=a"), external("q", "queue=b"), external("q", "queue=a"),
		inspect.AutoscalerMetric{Source: "Resource", Name: "cpu"}, external("External q {queue=b}", "")))
	s.values["here"] = Reading{Sum: metric.Int(3), Values: 2, Pods: 2}
	s.values["slow"] = Reading{Sum: metric.Int(3), Values: 2, Pods: 3}
	s.held = []explain.Held{{}, {Why: "1 of 3 pods without a value"}}
	s.values["q"] = Reading{Sum: metric.Int(5), Values: 1}
	s.round(time.Now())
	want := `
# HELP sluice_autoscaler_metric_held_back 1 if pods that lack a value of a Pods metric, or whose series a limit rejects, change or may change what a HorizontalPodAutoscaler decides, else 0; absent while it is missing.
# TYPE sluice_autoscaler_metric_held_back gauge
sluice_autoscaler_metric_held_back{hpa="web",metric="here",namespace="shop"} 0
sluice_autoscaler_metric_held_back{hpa="web",metric="slow",namespace="shop"} 1
# HELP sluice_autoscaler_metric_missing 1 if Sluice has no value for a metric that a HorizontalPodAutoscaler names, else 0; absent if another server is asked.
# TYPE sluice_autoscaler_metric_missing gauge
sluice_autoscaler_metric_missing{hpa="web",metric="External q {queue=a}",namespace="shop"} 0
sluice_autoscaler_metric_missing{hpa="web",metric="External q {queue=b}",namespace="shop"} 0
sluice_autoscaler_metric_missing{hpa="web",metric="gone",namespace="shop"} 1
sluice_autoscaler_metric_missing{hpa="web",metric="here",namespace="shop"} 0
sluice_autoscaler_metric_missing{hpa="web",metric="slow",namespace="shop"} 0
# HELP sluice_autoscaler_metric_value Value of a metric that a HorizontalPodAutoscaler names: the mean of the pods that have one, or the sum of the series; absent while it is missing.
# TYPE sluice_autoscaler_metric_value gauge
sluice_autoscaler_metric_value{hpa="web",metric="External q {queue=a}",namespace="shop"} 5
sluice_autoscaler_metric_value{hpa="web",metric="External q {queue=b}",namespace="shop"} 5
sluice_autoscaler_metric_value{hpa="web",metric="here",namespace="shop"} 1.5
sluice_autoscaler_metric_value{hpa="web",metric="slow",namespace="shop"} 1.5
`
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	s.documents = nil
	s.round(time.Now())
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series of a deleted autoscaler, %v", n, err)
	}
}

// A new spec keeps what is known of a metric that stays. A new autoscaler of the same name does not.
func TestAChangedAutoscaler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("x")))
		s.passes(grace + interval)
		s.documents = []*inspect.Autoscaler{hpa("web", external("y", ""), pods("x"))}
		s.passes(grace + interval)
		if len(s.events) != 2 || !strings.Contains(s.events[1], `"y"`) {
			t.Errorf("after a new spec: %q", s.events)
		}
		again := hpa("web", pods("x"))
		again.UID = "another"
		s.documents = []*inspect.Autoscaler{again}
		s.passes(time.Minute)
		if len(s.events) != 3 || !strings.Contains(s.events[2], `"x"`) {
			t.Errorf("after a new autoscaler: %q", s.events)
		}
	})
}

// Nothing is evaluated without autoscalers, before the cluster is known, or for cpu alone.
func TestNothingRunsWithoutAutoscalers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("x")))
		s.notReady = true
		defer s.run()()
		if reads := s.wait(time.Minute + time.Second); reads != 0 {
			t.Errorf("%d reads before the cluster is known", reads)
		}
		s.set(func() { s.notReady = false })
		if reads := s.wait(interval); reads != 1 {
			t.Errorf("%d reads in the first round", reads)
		}
		s.set(func() {
			s.documents = []*inspect.Autoscaler{hpa("web", inspect.AutoscalerMetric{Source: "Resource", Name: "cpu"})}
		})
		if reads := s.wait(time.Hour); reads != 1 {
			t.Errorf("%d reads for cpu", reads-1)
		}
		s.set(func() { s.documents = []*inspect.Autoscaler{hpa("web", pods("x"))} })
		s.Changed()
		if reads := s.wait(shortest); reads != 2 {
			t.Error("a change of an autoscaler begins no round")
		}
	})
}

// A large cluster is read less often, so that the watcher costs less than a hundredth of a core.
func TestIntervalOfALargeCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("x")))
		s.values["x"] = Reading{Sum: metric.Int(1), Values: 30 * readsPerSecond, Pods: 30 * readsPerSecond}
		defer s.run()()
		reads := s.wait(10*time.Minute + time.Second)
		if reads < 19 || reads > 20 {
			t.Errorf("%d rounds of 300,000 values in ten minutes, want one in 30 s", reads)
		}
		s.set(func() { s.values["x"] = Reading{Sum: metric.Int(1), Values: 2, Pods: 2} })
		if reads := s.wait(time.Minute); reads < 25 {
			t.Errorf("%d rounds, want one in 5 s after the cluster shrank", reads)
		}
	})
}

// A namespace with many autoscalers that read many values is read less often, and no other one is.
func TestLargeNamespacesDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := hpa("web", pods("y"))
		s := newTown(web)
		for i := range 100 {
			large := hpa(fmt.Sprintf("large-%03d", i), pods("x"), pods("x"))
			large.Namespace = "flood"
			s.documents = append(s.documents, large)
		}
		s.values["x"] = Reading{Sum: metric.Int(1), Values: 5000, Pods: 5000}
		s.values["y"] = Reading{Sum: metric.Int(1), Values: 1, Pods: 1}
		s.passes(2 * time.Minute)
		for _, a := range s.Autoscalers("flood") {
			if a.Metrics[0].Value == "" {
				t.Errorf("%s was never read", a.Name)
			}
		}
		delete(s.values, "y")
		s.passes(grace + 3*interval)
		if len(s.events) != 1 {
			t.Errorf("Events %q of the other namespace", s.events)
		}
	})
}

// A namespace whose autoscalers take long to read takes a tenth of the time, and delays no round by more than one of them.
func TestSlowNamespacesDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("y")))
		s.slow = map[string]time.Duration{"x": time.Second}
		for i := range 100 {
			slow := hpa(fmt.Sprintf("slow-%03d", i), pods("x"))
			slow.Namespace = "flood"
			s.documents = append(s.documents, slow)
		}
		s.values["y"] = Reading{Sum: metric.Int(1), Values: 1, Pods: 1}
		stop := s.run()
		time.Sleep(10 * time.Minute)
		stop()
		rounds, reads := s.rounds, s.reads
		if slow := reads - rounds; rounds < 90 || slow < 40 || slow > 70 {
			t.Errorf("%d rounds, %d reads of a second in ten minutes, want 60", rounds, slow)
		}
	})
}

// Autoscalers that change all the time begin no round before the reads of the last one are paid for.
func TestChangesAreNoReasonToReadMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("x")))
		s.values["x"] = Reading{Sum: metric.Int(1), Values: 30 * readsPerSecond, Pods: 30 * readsPerSecond}
		defer s.run()()
		for range 600 {
			s.Changed()
			time.Sleep(time.Second)
		}
		if reads := s.wait(0); reads < 15 || reads > 21 {
			t.Errorf("%d rounds of 300,000 values in ten minutes, want one in 30 s", reads)
		}
	})
}

// An autoscaler of a name that had another one shows none of the former's answers, also while its namespace has to wait for
// reads, to which the former one's contributed.
func TestAnswersEndWithTheirAutoscaler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := hpa("web", pods("x"))
		former.UID = "1"
		s := newTown(former)
		s.values["x"] = Reading{Sum: metric.Int(7), Values: 3 * namespaceReads, Pods: 3 * namespaceReads}
		s.passes(interval)
		next := *former
		next.UID = "2"
		s.documents[0] = &next
		for _, when := range []string{"before a round", "after a round"} {
			if a := s.Autoscalers("shop")[0]; a.Metrics[0].Value != "" || a.Metrics[0].Pods != 0 {
				t.Errorf("%s: %+v", when, a.Metrics[0])
			}
			s.round(time.Now())
		}
		if reads := s.reads; reads != 1 || len(s.Watcher.held) != 0 {
			t.Errorf("%d reads, the former one's answers: %d", reads, len(s.Watcher.held))
		}
	})
}

// Readers of large namespaces hold the lock for one autoscaler at a time, so rounds go on meanwhile.
func TestReadersDelayNoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rolled := inspect.AutoscalerMetric{Source: "Object", ObjectKind: "Service", ObjectName: "web", Name: "y", TargetType: "Value"}
		s := newTown(hpa("web", pods("x"), rolled), hpa("worker", pods("x")))
		s.values["x"], s.values["y"] = Reading{Sum: metric.Int(1), Values: 1, Pods: 2}, Reading{Sum: metric.Int(1), Values: 3, Pods: 4}
		s.passes(interval)
		free := func() {
			if !s.Watcher.mu.TryLock() {
				t.Error("the lock is held between two autoscalers")
				return
			}
			s.Watcher.mu.Unlock()
		}
		s.parts.Provider = func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (string, string) { free(); return "", "" }
		if all := s.Autoscalers("shop"); len(all) != 2 || all[0].Metrics[1].Values != 3 || all[1].Metrics[0].Value != "1" {
			t.Errorf("%+v", all)
		}
		var got []string
		s.EachMetric("shop", func(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, pods int) {
			free()
			got = append(got, fmt.Sprint(a.Name, " ", m.Name, " ", pods))
		})
		if want := []string{"web x 2", "web y 4", "worker x 2"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// The notices of a namespace, which may have many, leave some to others.
func TestNoticesOfOneNamespaceDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("y")))
		for i := range 20 * maxNotices {
			one := hpa(fmt.Sprintf("a-%03d", i), pods("x"))
			one.Namespace = "flood"
			s.documents = append(s.documents, one)
		}
		slices.Reverse(s.documents)
		s.passes(grace + interval)
		if !slices.ContainsFunc(s.events, func(text string) bool { return strings.HasPrefix(text, "web true MetricMissing") }) {
			t.Errorf("the other namespace is not told in %d Events", len(s.events))
		}
	})
}

// A namespace with many autoscalers doesn't fill the page of metrics.
func TestCollectedMetricsOfANamespaceAreBounded(t *testing.T) {
	s := newTown(hpa("web", external("y", "")))
	var metrics []inspect.AutoscalerMetric
	for i := range 100 {
		metrics = append(metrics, external(fmt.Sprint("x", i), ""))
	}
	for i := range 200 {
		one := hpa(fmt.Sprint("a-", i), metrics...)
		one.Namespace = "flood"
		s.documents = append(s.documents, one)
	}
	s.round(time.Now())
	if n := testutil.CollectAndCount(s, "sluice_autoscaler_metric_missing"); n != maxCollected+1 {
		t.Errorf("%d metrics are on the page, want %d of one namespace and one of the other", n, maxCollected)
	}
}

// A value that is rolled up from some of an object's pods says so.
func TestRemarkOnARollUp(t *testing.T) {
	m := &inspect.AutoscalerMetric{Source: "Object"}
	for r, want := range map[Reading]string{
		{Values: 2, Pods: 3}: "1 of the 3 pods that the value is rolled up from have no value", {Values: 3, Pods: 3}: "", {Values: 1}: "",
	} {
		if got := remark(&inspect.Autoscaler{}, m, r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

// A page of autoscalers copies no others: the recorder of the console reads all, page by page.
func TestAPageOfAutoscalersCopiesNoOthers(t *testing.T) {
	s := newTown()
	for i := range 30 {
		s.documents = append(s.documents, hpa(fmt.Sprintf("web-%02d", i), pods("x")))
	}
	asked := 0
	s.parts.Provider = func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (string, string) { asked++; return "", "" }
	var names []string
	inspect.All(inspect.Query{Namespace: "shop", Most: 10}, s.Watcher.Autoscalers, func(a *inspect.Autoscaler) bool {
		names = append(names, a.Name)
		return true
	})
	if asked != 30 || len(names) != 30 || !slices.IsSorted(names) {
		t.Errorf("%d autoscalers in order, %d copied; want 30 and 30: %q", len(names), asked, names)
	}
}

// A reason quotes the target, whose name may have the length of the whole spec, once for each metric.
func TestReasonsAreShort(t *testing.T) {
	document := hpa("web", pods("x"))
	document.TargetName = strings.Repeat("x", 60_000)
	s := newTown(document)
	s.values["x"] = Reading{Sum: metric.Int(1), Values: 1}
	s.round(time.Now())
	if why := s.Autoscalers("shop")[0].Metrics[0].Why; len(why) > 2*metric.MaxQuoted || !strings.Contains(why, "of all pods of the namespace") {
		t.Errorf("a reason of %d bytes: %.100q", len(why), why)
	}
}

// A notice is paid for as answers are, and repeats little of a name: the API server does not bound those.
func TestNoticesOfLongNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(&inspect.Autoscaler{Namespace: "shop", Name: "web", Metrics: []inspect.AutoscalerMetric{
			{Source: "External", Name: strings.Repeat("m", 60_000)}}})
		w.slowHint = time.Second
		for len(w.events) == 0 {
			time.Sleep(interval)
			if reads := w.round(time.Now()); (reads > metricReads) != (len(w.events) > 0) {
				t.Errorf("a round with %d notices costs %d reads", len(w.events), reads)
			}
		}
		w.values[strings.Repeat("m", 60_000)] = Reading{Sum: metric.Int(1), Values: 1}
		w.round(time.Now())
		if len(w.events) != 2 || len(w.events[0]) > 2048 || len(w.events[1]) > 2048 || len(w.log.String()) > 8192 {
			t.Errorf("%d events; the first has %d bytes, the log %d", len(w.events), len(w.events[0]), len(w.log.String()))
		}
	})
}
