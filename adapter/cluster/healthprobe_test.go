package cluster

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// lateAtMost bounds the delay of the view after the API server has recovered.
const lateAtMost = 3 * time.Second

// The longer an outage, the longer a Reflector waits between two attempts. After a recovery the
// view is up to date at once.
func TestWatchesResumeWithTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the API server away for 12 s")
	}
	for tries := 1; ; tries++ {
		late := lateAfterOutage(t)
		t.Logf("known %v after the server was back", late)
		if late <= lateAtMost {
			return
		}
		if tries == 5 { // a loaded machine delays one or another
			t.Fatalf("known %v after the server was back, want %v at most", late, lateAtMost)
		}
	}
}

// lateAfterOutage takes the API server away for 12 s, and returns the delay of the view after it is
// back.
func lateAfterOutage(t *testing.T) time.Duration {
	s := newAPIServer(t)
	gone := aPod("shop", "web-1", "u1", "10.0.0.1")
	s.put(podsPath, gone)
	v := s.viewThat(t, func(*View) {})
	v.waitSynced(t)
	s.stop()
	time.Sleep(12 * time.Second)
	s.remove(podsPath, gone)
	s.put(podsPath, aPod("shop", "web-2", "u2", "10.0.0.2"))
	s.start(s.at)
	back := time.Now()
	eventually(t, "the new pod", func() bool { return v.Sender(netip.MustParseAddr("10.0.0.2")) != nil })
	eventually(t, "the old pod's end", func() bool { return v.PodNamed("shop", "web-1") == nil })
	return time.Since(back).Round(time.Millisecond)
}

// A watch of a frozen server looks like a watch without events. The outage is reported anyway, also
// for pods.
func TestFrozenServerIsAnOutage(t *testing.T) {
	for timeout := 200 * time.Millisecond; !frozenServer(t, timeout); timeout *= 5 {
		if timeout > 10*time.Second {
			t.Fatal("an API server that answers is an outage")
		}
	}
}

// frozenServer is one run with a timeout of the probe. It returns false if a probe failed though the
// server was not frozen: the machine was too slow.
func frozenServer(t *testing.T, timeout time.Duration) bool {
	s := newAPIServer(t)
	s.put(podsPath, aPod("shop", "web-1", "u1", "10.0.0.1"))
	v := s.viewThat(t, func(v *View) { v.probe.interval, v.probe.timeout = 20*time.Millisecond, timeout })
	v.waitSynced(t)
	failures := func() int { return v.logs.Count("the API server does not respond") }
	if _, _, blind := v.Outage(); blind || failures() > 0 {
		return false
	}
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
	if n := failures(); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if !v.Alive(metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}) {
		t.Error("what was known is forgotten")
	}
	thaw()
	eventually(t, "that all is well", func() bool { _, detail := v.Synced(); return detail == "" && pods.failingFor() == 0 })
	if n := v.listed(podsPath); n != 1 {
		t.Errorf("the list was read %d times: the watch went on, want once", n)
	}
	return true
}

// After an address moved, old connections lead nowhere until they are closed.
func TestConnectionsThatLeadNowhereAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("freezes the API server for 10 s")
	}
	s := newAPIServer(t)
	closed := make(chan time.Time, 10)
	v := s.viewThat(t, func(v *View) {
		v.probe.interval, v.probe.timeout = 20*time.Millisecond, 200*time.Millisecond
		hangUp := v.probe.closeConnections
		v.probe.closeConnections = func() { hangUp(); closed <- time.Now() }
	})
	v.waitSynced(t)
	defer s.freeze()()
	frozen := time.Now()
	select {
	case at := <-closed:
		if after := at.Sub(frozen); after < closeConnectionsAfter-time.Second {
			t.Errorf("closed after %v: too soon for a server that is slow", after)
		}
	case <-time.After(3 * closeConnectionsAfter):
		t.Fatal("connections are open yet")
	}
}
