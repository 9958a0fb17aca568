package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// testReplicas is the name of the replicas of a test, and of their Lease.
const testReplicas = "west"

// replica runs the view of one of several replicas, with a Lease of a second.
func (s *apiServer) replica(t *testing.T, name string) (v *View, stop func()) {
	t.Helper()
	cfg := Config{Replica: name, Replicas: testReplicas}
	v, err := NewView(s.client(t, &cfg), cfg, slog.New(slog.DiscardHandler))
	must(t, err)
	v.retryAfter(wait.Backoff{Duration: 20 * time.Millisecond, Cap: 50 * time.Millisecond, Factor: 1.5, Steps: 10})
	v.events.lease.times = leaseTimes{time.Second, 600 * time.Millisecond, 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Errorf("Run of %s: %v", name, err)
			}
		}
	}
	t.Cleanup(stop)
	return v, stop
}

func (s *apiServer) eventCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// wantEvents fails unless there are n Events soon, and no more a while later.
func (s *apiServer) wantEvents(t *testing.T, n int) {
	t.Helper()
	eventually(t, "the Events", func() bool { return s.eventCount() >= n })
	time.Sleep(100 * time.Millisecond)
	if got := s.eventCount(); got != n {
		t.Errorf("%d Events, want %d", got, n)
	}
}

// Two replicas write each Event once: the holder of the Lease those about what both see, and each
// replica those about what it alone may know.
func TestReplicasWriteEventsOnce(t *testing.T) {
	s := newAPIServer(t)
	s.put(limitsPath, aLimitRange("shop", "early", podItem("-1", "10"))) // before anyone holds the Lease
	first, stop := s.replica(t, "sluice-0")
	eventually(t, "a holder", first.events.lease.holds.Load)
	s.wantEvents(t, 1)
	second, _ := s.replica(t, "sluice-1")
	eventually(t, "the second's list", func() bool { return second.events.suppressed.Load() == 1 })
	s.put(limitsPath, aLimitRange("shop", "late", podItem("-2", "10")))
	s.wantEvents(t, 2)

	on := metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}
	second.Event(on, "MetricRefused", "x", "no slot for x: it has 5 series")
	s.wantEvents(t, 3)
	first.Event(on, "MetricRefused", "x", "no slot for x: it has 4 series")
	first.Event(on, "MetricRefused", "y", "no slot for y")
	s.wantEvents(t, 4)

	stop()
	if first.events.lease.holds.Load() {
		t.Error("a stopped replica holds the Lease")
	}
	s.put(limitsPath, aLimitRange("shop", "last", podItem("-3", "10")))
	eventually(t, "another holder", second.events.lease.holds.Load)
	s.wantEvents(t, 5) // the names of the Events that it had left to the first are taken
}

// Without an API server nobody holds the Lease, and nothing else happens. A holder that cannot
// renew the Lease stops writing.
func TestHolderWithoutAPIServerStopsWriting(t *testing.T) {
	s := newAPIServer(t)
	v, _ := s.replica(t, "sluice-0")
	eventually(t, "a holder", v.events.lease.holds.Load)
	s.stop()
	eventually(t, "the end of the term", func() bool { return !v.events.lease.holds.Load() })
	s.start(s.at)
	eventually(t, "another term", v.events.lease.holds.Load)
}

// All replicas see that an autoscaler lacks a metric; the holder of the Lease writes the Event.
func TestReplicasWriteEventsOnAutoscalersOnce(t *testing.T) {
	s := newAPIServer(t)
	first, _ := s.replica(t, "sluice-0")
	eventually(t, "a holder", first.events.lease.holds.Load)
	second, _ := s.replica(t, "sluice-1")
	on := &inspect.Autoscaler{Namespace: "shop", Name: "web", UID: "h1"}
	for _, v := range []*View{second, first} {
		v.AutoscalerEvent(on, true, "MetricMissing", "Pods hits 1", "no value")
		v.AutoscalerEvent(on, false, "MetricAvailable", "Pods hits 1", "a value")
	}
	s.wantEvents(t, 2)
	eventually(t, "what the second left", func() bool { return second.events.suppressed.Load() == 2 })
	s.mu.Lock()
	defer s.mu.Unlock()
	want := corev1.ObjectReference{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "web", UID: "h1"}
	for i, sort := range []string{corev1.EventTypeWarning, corev1.EventTypeNormal} {
		if e := s.events[i]; e.InvolvedObject != want || e.Type != sort || e.Namespace != "shop" {
			t.Errorf("Event %+v, want a %s on %+v", e, sort, want)
		}
	}
}
