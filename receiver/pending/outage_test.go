package pending

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// While the API server is away, no sender becomes known. That time does not count, and a sender
// that becomes known afterwards gets all samples.
func TestPendingOutlastsTheAPIServersAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		blind := w.blindFrom(time.Now())
		w.run()
		defer w.stop()
		blind.Store(true)
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		elapse(5 * time.Minute)
		w.checkAccount(1, 0, 0)
		blind.Store(false)
		elapse(29 * time.Second)
		w.checkAccount(1, 0, 0)
		w.senders.enter("10.0.0.1", "web-1", 1)
		elapse(time.Second)
		w.checkAccount(0, 1, 0)
	})
}

// After the outage the usual half minute applies. If the API server stays away, the log does not
// blame the network.
func TestPendingEndsAfterTheAPIServersAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		blind := w.blindFrom(time.Now())
		w.run()
		defer w.stop()
		blind.Store(true)
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		elapse(2 * time.Minute)
		blind.Store(false)
		elapse(31 * time.Second)
		w.checkAccount(0, 0, 1)
		if !strings.Contains(w.log.String(), "avoid source NAT") {
			t.Error(w.log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		blind := w.blindFrom(time.Now())
		w.run()
		defer w.stop()
		blind.Store(true)
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		elapse(10*time.Minute - time.Second)
		w.checkAccount(1, 0, 0)
		elapse(2 * time.Second)
		w.checkAccount(0, 0, 1)
		if text := w.log.String(); strings.Contains(text, "NAT") || !strings.Contains(text, "the API server has not answered since 2000-01-01T00:00:00Z: connection refused") {
			t.Error(text)
		}
	})
}

// blindFrom has the room look at whether the cluster can be seen.
func (w *fixture) blindFrom(since time.Time) *atomic.Bool {
	blind := new(atomic.Bool)
	w.buffer.parts.Blind = func() (time.Time, string, bool) { return since, "connection refused", blind.Load() }
	return blind
}
