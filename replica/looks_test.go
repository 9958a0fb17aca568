package replica

import (
	"testing"
	"testing/synctest"
	"time"
)

// Answers that wait for the requester's budget are sent without another question.
func TestDelayedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b := join(t, e, "a"), join(t, e, "b")
		const blocks = 200
		a.add(blocks-1, 1)
		time.Sleep(2 * time.Second)
		m := wantBody{of: a.replica.me}
		for i := range blocks {
			m.blocks = append(m.blocks, i)
		}
		for range (4*blocks+leastBudget)/blocks + 1 {
			b.replica.send(b.replica.subjects.of(wantOf, "a"), typeWant, m.append(nil), nil)
			time.Sleep(10 * time.Millisecond)
		}
		if n := a.queued(); n == 0 {
			t.Error("no answer is delayed")
		}
		time.Sleep(3 * time.Second)
		if n := a.queued(); n > 0 {
			t.Errorf("%d blocks are still queued", n)
		}
		b.leave()
		a.leave()
	})
}

// queued is the number of blocks that replicas wait for.
func (m *member) queued() (n int) {
	s := &m.replica.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requesters {
		n += len(r.blocks)
	}
	return n
}

// A follower that no message wakes forgets an origin that is silent and empty.
func TestSilentOriginIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b := join(t, e, "a"), join(t, e, "b")
		time.Sleep(2 * time.Second)
		e.mu.Lock()
		e.lose = func(from, _ string) bool { return from == "a" }
		e.mu.Unlock()
		time.Sleep(runsAfter - time.Second)
		if n := len(b.replica.origins.sorted()); n != 1 {
			t.Errorf("%d origins, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := len(b.replica.origins.sorted()); n != 0 {
			t.Errorf("%d origins, want none", n)
		}
		b.leave()
		a.leave()
	})
}
