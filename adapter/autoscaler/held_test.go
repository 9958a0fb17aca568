package autoscaler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// A document says that pods without a value hold its autoscaler back. That costs nothing where all
// pods have one.
func TestHeldBack(t *testing.T) {
	s := newTown(hpa("web", pods("busy"), external("queue", ""), pods("gone")))
	s.values["queue"] = Reading{Sum: metric.Int(6), Values: 1}
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 3}
	s.held = []explain.Held{{Why: "2 of 5 pods without a value", Without: []inspect.PodWithout{{Name: "web-4", Why: "was rejected", Refused: true}}}, {}, {}}
	s.round(time.Now())
	if s.heldAsked != nil || s.Autoscalers("")[0].Fault() != "metric gone is missing: "+s.Autoscalers("")[0].Metrics[2].Why {
		t.Errorf("asked about %+v although all pods have a value", s.heldAsked)
	}
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 5}
	s.round(time.Now())
	if asked := s.heldAsked; asked == nil || !asked.Metrics[0].Asked || !asked.Metrics[2].Asked {
		t.Fatalf("asked about %+v", asked)
	}
	if s.round(time.Now()); s.heldCalls != 1 {
		t.Errorf("asked %d times in two rounds", s.heldCalls)
	}
	m := s.Autoscalers("")[0].Metrics[0]
	if m.HeldBack != "2 of 5 pods without a value" || len(m.Without) != 1 || m.Without[0].Name != "web-4" || m.Why != "2 of 5 pods have no value" {
		t.Errorf("%+v", m)
	}
	if s.documents[0].Metrics[0].HeldBack != "" || s.documents[0].Metrics[0].Asked {
		t.Error("the view's document was changed")
	}
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 2, Pods: 5}
	if s.round(time.Now()); s.heldCalls != 2 {
		t.Error("not asked again, although another pod has no value")
	}
	if s.round(time.Now().Add(heldInterval)); s.heldCalls != 3 {
		t.Errorf("not asked again after %v", heldInterval)
	}
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 5, Pods: 5}
	s.round(time.Now())
	if m := s.Autoscalers("")[0].Metrics[0]; m.HeldBack != "" || m.Without != nil {
		t.Errorf("all pods have a value again: %+v", m)
	}
}

// A round of a large cluster asks about some autoscalers. The others follow in later rounds, and keep
// what was known of them.
func TestRoundsAskAboutSomeHeldAutoscalers(t *testing.T) {
	s := newTown()
	for i := range 30 {
		one := hpa(fmt.Sprint("web-", i), pods("busy"))
		one.Namespace = fmt.Sprint("shop-", i%5)
		s.documents = append(s.documents, one)
	}
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 1, Pods: 1500}
	s.held = []explain.Held{{Why: "1499 of 1500 pods without a value"}}
	began := time.Now()
	held := func() (n int) {
		for _, autoscaler := range s.Autoscalers("") {
			if autoscaler.Metrics[0].HeldBack != "" {
				n++
			}
		}
		return n
	}
	for round, want := range []int{10, 20, 30, 30, 30} {
		if s.round(began.Add(time.Duration(round) * interval)); held() != want || s.heldCalls != want {
			t.Errorf("round %d: %d are known, %d asked, want %d", round, held(), s.heldCalls, want)
		}
	}
	if s.round(began.Add(heldInterval)); held() != 30 || s.heldCalls != 40 {
		t.Errorf("after %v: %d are known, %d asked", heldInterval, held(), s.heldCalls)
	}
}

// The autoscalers of a namespace, of which there may be many, leave some reads to others.
func TestHeldAutoscalersOfOneNamespaceDelayNoOther(t *testing.T) {
	s := newTown()
	for i := range 100 {
		one := hpa(fmt.Sprint("a-", i), pods("busy"))
		one.Namespace = "flood"
		s.documents = append(s.documents, one)
	}
	s.documents = append(s.documents, hpa("web", pods("held")))
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 1, Pods: 200}
	s.values["held"] = Reading{Sum: metric.Int(6), Values: 1, Pods: 2}
	s.held = []explain.Held{{Why: "pods without a value"}}
	if s.round(time.Now()); s.Autoscalers("shop")[0].Metrics[0].HeldBack == "" {
		t.Errorf("the other namespace is not asked about, after %d questions", s.heldCalls)
	}
}

// A pod that has a value, and is refused further series, is asked about too.
func TestHeldBackByRejectedSeries(t *testing.T) {
	s := newTown(hpa("web", pods("busy")))
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 3, Rejected: true}
	s.held = []explain.Held{{Why: "the value of 1 of 3 pods is incomplete"}}
	s.round(time.Now())
	if got := s.Autoscalers("")[0].Fault(); got != "metric busy is held back: the value of 1 of 3 pods is incomplete" {
		t.Errorf("%q", got)
	}
	s.values["busy"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 3}
	if s.round(time.Now()); s.Autoscalers("")[0].Fault() != "" {
		t.Errorf("no series is rejected any more: %q", s.Autoscalers("")[0].Fault())
	}
}

// An autoscaler that pods hold back gets an Event when that has lasted for a while, and one when it ends:
// not one for each pod or value. The log has a line for each.
func TestBeingHeldBackIsToldOnceAndAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("busy")), hpa("web-too", pods("busy")))
		s.values["busy"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 5}
		s.held = []explain.Held{{Why: "2 of 5 pods without a value (web-4 was rejected)"}}
		if s.passes(grace); len(s.events) != 0 {
			t.Fatalf("told during the grace period: %q", s.events)
		}
		s.passes(time.Minute)
		s.held = []explain.Held{{Why: "1 of 5 pods without a value (web-4 was rejected)"}}
		s.values["busy"] = Reading{Sum: metric.Int(8), Values: 4, Pods: 5}
		s.passes(time.Hour)
		want := []string{`web true MetricHeldBack: Pods metric "busy" holds the autoscaler back: 2 of 5 pods without a value (web-4 was rejected). More: sluice explain hpa/web -n shop`,
			`web-too true MetricHeldBack: Pods metric "busy" holds the autoscaler back: 2 of 5 pods without a value (web-4 was rejected). More: sluice explain hpa/web-too -n shop`}
		if !slices.Equal(s.events, want) {
			t.Fatalf("Events %q, want %q", s.events, want)
		}
		if n := s.logged("level=WARN"); n != 1 {
			t.Errorf("%d warnings, want 1: %s", n, s.log.String())
		}
		s.events = nil
		s.values["busy"] = Reading{Sum: metric.Int(10), Values: 5, Pods: 5}
		if s.passes(time.Minute); len(s.events) != 2 || !strings.HasPrefix(s.events[0], `web false MetricReleased: Pods metric "busy" no longer holds the autoscaler back, after 1h`) {
			t.Errorf("Events %q", s.events)
		}
	})
}

// A metric that is lost while pods hold the autoscaler back is missing, which is no end of being held
// back: the end is told once it has a value of all pods.
func TestALostMetricIsNoLongerHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(hpa("web", pods("busy")))
		s.values["busy"] = Reading{Sum: metric.Int(6), Values: 3, Pods: 5}
		s.held = []explain.Held{{Why: "2 of 5 pods without a value"}}
		s.passes(time.Minute)
		delete(s.values, "busy")
		s.passes(time.Minute)
		if m := s.Autoscalers("")[0].Metrics[0]; m.HeldBack != "" || !m.Missing {
			t.Errorf("%+v", m)
		}
		s.values["busy"] = Reading{Sum: metric.Int(10), Values: 5, Pods: 5}
		s.passes(time.Minute)
		var reasons []string
		for _, event := range s.events {
			reasons = append(reasons, strings.TrimSuffix(strings.Fields(event)[2], ":"))
		}
		if !slices.Equal(reasons, []string{"MetricHeldBack", "MetricMissing", "MetricAvailable", "MetricReleased"}) {
			t.Errorf("%q", s.events)
		}
	})
}
