package cluster

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The longer an outage, the longer a Reflector waits between two attempts. After a recovery the
// view is up to date at once: here, the third wait is longer than the test.
func TestWatchesResumeWithTheServer(t *testing.T) {
	s := newAPIServer(t)
	gone := aPod("shop", "web-1", "u1", "10.0.0.1")
	s.put(podsPath, gone)
	v := s.viewThat(t, func(v *View) {
		v.retryAfter(wait.Backoff{Duration: time.Millisecond, Factor: 1000, Steps: 3})
		v.probe.interval = 20 * time.Millisecond
	})
	v.waitSynced(t)
	s.stop()
	eventually(t, "the outage", func() bool {
		_, _, blind := v.Outage()
		return blind && v.required[0].health.failureCount() >= 2
	})
	s.remove(podsPath, gone)
	s.put(podsPath, aPod("shop", "web-2", "u2", "10.0.0.2"))
	s.start(s.at)
	eventually(t, "the new pod", func() bool { return v.Sender(netip.MustParseAddr("10.0.0.2")) != nil })
	eventually(t, "the old pod's end", func() bool { return v.PodNamed("shop", "web-1") == nil })
}

// An outage begins with the first request without an answer, a watch's or the probe's.
func TestAnOutageBeginsWithTheEarlierFault(t *testing.T) {
	first, second, fault := time.Unix(1, 0), time.Unix(2, 0), errors.New("gone")
	for _, since := range [][2]time.Time{{first, second}, {second, first}, {first, {}}, {{}, first}} {
		watch := &requestHealth{resource: "pods", since: since[0], last: fault, probe: &healthProbe{since: since[1], last: fault}}
		if s, ok := watch.outage(); !ok || !s.since.Equal(first) {
			t.Errorf("a watch fails since %v, the probe since %v: the outage began at %v", since[0], since[1], s.since)
		}
	}
}

// A watch of a frozen server looks like a watch without events. The outage is reported anyway, also
// for pods.
func TestFrozenServerIsAnOutage(t *testing.T) {
	s := newAPIServer(t)
	s.put(podsPath, aPod("shop", "web-1", "u1", "10.0.0.1"))
	v := s.viewThat(t, func(v *View) { v.probe.interval, v.probe.timeout = 20*time.Millisecond, time.Second })
	v.waitSynced(t)
	thaw := s.freeze()
	pods := v.required[0].health
	eventually(t, "that pods are unanswered", func() bool { return pods.failingFor() > 300*time.Millisecond })
	if since, why, blind := v.Outage(); !blind || since.IsZero() || why == "" {
		t.Errorf("blind: %v since %v, %q", blind, since, why)
	}
	ok, detail := v.Synced()
	if !ok || !strings.Contains(detail, "no answer about API resources, pods,") {
		t.Errorf("synced: %v, %q", ok, detail)
	}
	// A probe may have taken longer than its timeout before, which was another outage.
	if begun, over := v.logs.Count("the API server does not respond"), v.logs.Count("the API server responds again"); begun-over != 1 {
		t.Errorf("logged %d outages and %d ends, want one outage that lasts", begun, over)
	}
	if !v.Alive(metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}) {
		t.Error("what was known is forgotten")
	}
	thaw()
	eventually(t, "that all is well", func() bool { _, detail := v.Synced(); return detail == "" && pods.failingFor() == 0 })
	if n := v.listed(podsPath); n != 1 {
		t.Errorf("the list was read %d times: the watch went on, want once", n)
	}
}

// After an address moved, old connections lead nowhere until they are closed.
func TestConnectionsThatLeadNowhereAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, closed := time.Now(), []time.Duration(nil)
		p := &healthProbe{
			check:            func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			closeConnections: func() { closed = append(closed, time.Since(began)) },
			logger:           quiet, interval: probeInterval, timeout: probeTimeout, recovered: make(chan struct{}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		p.run(ctx)
		if want := []time.Duration{11 * time.Second, 23 * time.Second}; !slices.Equal(closed, want) {
			t.Errorf("closed after %v, want %v", closed, want)
		}
	})
}
