package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// syncs are the questions to other replicas whether they have applied a flush.
type syncs struct {
	r *Replica

	mu       sync.Mutex
	applied  map[originKey]uint64 // the newest flush that a replica has said to have
	removed  map[originKey]uint64 // the newest whose removals it has said to be everywhere
	answered chan struct{}        // closed by the next answer
}

func (s *syncs) init(r *Replica) {
	s.r, s.applied, s.removed = r, map[originKey]uint64{}, map[originKey]uint64{}
	s.answered = make(chan struct{})
}

// question is what other replicas are asked.
type question struct {
	flush   uint64
	removed bool // see syncBody
}

// SyncAll returns when every live replica has applied all that was applied here before the call.
// Its error names the replicas that have not.
func (r *Replica) SyncAll(ctx context.Context) error {
	flush, err := r.flushAll(ctx)
	if err != nil {
		return err
	}
	return r.syncs.confirm(ctx, question{flush: flush})
}

// SyncDeletion is SyncAll for a deletion: the live replicas have also applied what each of them removed because
// of it. A replica that has heard of a deletion may still answer with what another one has not removed: it
// doesn't hide series that are so young that only their origin knows whether they were born before.
func (r *Replica) SyncDeletion(ctx context.Context) error {
	flush, err := r.flushAll(ctx)
	if err != nil {
		return err
	}
	return r.syncs.confirm(ctx, question{flush: flush, removed: true})
}

// flushAll returns when all that was applied before the call is published, and the number of the last flush
// with it.
func (r *Replica) flushAll(ctx context.Context) (uint64, error) {
	began, ended := r.publisher.flushes()
	for newest := began; newest < r.publisher.after(began); newest, ended = r.publisher.flushes() {
		r.parts.FlushSoon()
		select {
		case <-ended:
		case <-ctx.Done():
			return 0, fmt.Errorf("replica: no flush has ended: %w", ctx.Err())
		}
	}
	return r.publisher.after(began), nil
}

// syncEvery is the time between two questions.
const syncEvery = 50 * time.Millisecond

// confirm asks all live replicas until each has confirmed.
func (s *syncs) confirm(ctx context.Context, q question) error {
	every := time.NewTicker(syncEvery)
	defer every.Stop()
	ask := true
	for {
		missing, answered := s.missing(q)
		if len(missing) == 0 {
			return nil
		}
		if ask {
			s.ask(q)
		}
		select {
		case <-answered:
			ask = false
		case <-every.C:
			ask = true
		case <-ctx.Done():
			return fmt.Errorf("replica: %s did not confirm the change: %w", strings.Join(missing, ", "), ctx.Err())
		}
	}
}

func (s *syncs) ask(q question) {
	m := syncBody{of: s.r.me, flush: q.flush, removed: q.removed}
	s.r.send(s.r.subjects.of(flowOf, s.r.me.name, topicSync), typeSync, m.append(nil), nil)
}

// isEverywhere reports whether every live replica has applied a flush. If not, it flushes or asks, for the next
// call; it does not wait. Replicas that wait for each other's removals would wait forever if the answer to ask
// waited for removals, too.
func (s *syncs) isEverywhere(flush uint64) bool {
	if newest, _ := s.r.publisher.flushes(); newest < flush {
		s.r.parts.FlushSoon()
		return false
	}
	missing, _ := s.missing(question{flush: flush})
	if len(missing) > 0 {
		s.ask(question{flush: flush})
	}
	return len(missing) == 0
}

// HearDocuments returns when the documents that live replicas had before the call are applied here. Its
// error names the replicas that were not heard.
func (r *Replica) HearDocuments(ctx context.Context) error {
	// The answers are sent after the call, so the heartbeats behind them are, too. The flush of the first
	// may have passed a document before the call. The one after it has not.
	if err := r.SyncAll(ctx); err != nil {
		return err
	}
	var waited []heardDocuments
	for _, f := range r.origins.live(r.now()) {
		waited = append(waited, f.documentsAfter(2))
	}
	every := time.NewTicker(syncEvery)
	defer every.Stop()
	for {
		waited = slices.DeleteFunc(waited, func(h heardDocuments) bool { return h.has() || !h.f.live(r.now()) })
		if len(waited) == 0 {
			return nil
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			var names []string
			for _, h := range waited {
				names = append(names, h.f.key.name)
			}
			return fmt.Errorf("replica: the documents of %s did not arrive: %w", strings.Join(names, ", "), ctx.Err())
		}
	}
}

// heardDocuments are the documents of an origin up to a flush.
type heardDocuments struct {
	f           *follower
	incarnation uint64
	flush       uint64
}

// documentsAfter are the documents up to a number of flushes after the newest.
func (f *follower) documentsAfter(flushes uint64) heardDocuments {
	f.mu.Lock()
	defer f.mu.Unlock()
	return heardDocuments{f, f.incarnation, f.newest.flush + flushes}
}

// has reports whether the documents are applied. Those of a process that has ended meanwhile are on its
// disk, so its next process has sent them.
func (h *heardDocuments) has() bool {
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	return (f.newest.flush >= h.flush || f.incarnation != h.incarnation) && !f.docs.lacks(f.newest.documents)
}

// missing names the live replicas that have not confirmed.
func (s *syncs) missing(q question) (names []string, answered <-chan struct{}) {
	live := s.r.origins.live(s.r.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	confirmed := s.confirmedLocked(q.removed)
	for _, f := range live {
		if confirmed[f.key] < q.flush {
			names = append(names, f.key.name)
		}
	}
	return names, s.answered
}

func (s *syncs) confirmedLocked(removed bool) map[originKey]uint64 {
	if removed {
		return s.removed
	}
	return s.applied
}

// answer enters an answer.
func (s *syncs) answer(h *header, m *syncBody) {
	if m.of.epoch != s.r.me.epoch || m.of.incarnation != s.r.me.incarnation {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, confirmed := originKey{h.name, h.epoch}, s.confirmedLocked(m.removed)
	if _, known := confirmed[key]; !known && len(confirmed) >= 2*maxOrigins {
		clear(confirmed) // of origins that came and went
	}
	confirmed[key] = max(confirmed[key], m.flush)
	close(s.answered)
	s.answered = make(chan struct{})
}

// A process that stood still, frozen or moved to another machine, has what others received before. It
// answers nothing until it has heard again each origin that it heard then.

const (
	pulseEvery = beatEvery / 2
	// lateBy is the lateness of a tick from which the process stood still.
	lateBy = time.Second
	// hearsWithin bounds the wait for other origins.
	hearsWithin = 2 * time.Second
	// freshWithin is the delay up to which a heartbeat shows what its origin has now.
	freshWithin = beatEvery
)

// pulse notices that the process stood still. One goroutine ticks; any goroutine asks.
type pulse struct {
	last    atomic.Int64 // the newest tick: nanoseconds since the replica's start; 0: none
	waiting atomic.Bool  // for other origins

	mu           sync.Mutex // guards the fields below
	began, ended time.Time  // of the newest standstill
}

// pulseLoop does nothing else, so a late tick means that the process didn't run.
func (r *Replica) pulseLoop(ctx context.Context) {
	every := time.NewTicker(pulseEvery)
	defer every.Stop()
	for {
		r.pulseTick(r.now())
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// pulseTick follows the one before after pulseEvery.
func (r *Replica) pulseTick(now time.Time) {
	p := &r.pulse
	if still, late := r.stoodStill(now); late {
		r.log.Warn("this process stood still; it answers no query until it has heard the other replicas again",
			"for", still.Round(time.Millisecond), "at most", hearsWithin)
		p.mu.Lock()
		if !p.waiting.Load() {
			p.began = now.Add(-still)
		}
		p.ended = now
		p.waiting.Store(true) // before the next reader finds that the last tick isn't late
		p.mu.Unlock()
	}
	p.last.Store(max(int64(now.Sub(r.started)), 1))
}

// stoodStill reports whether the next tick is late, and the time since the last one.
func (r *Replica) stoodStill(now time.Time) (time.Duration, bool) {
	last := r.pulse.last.Load()
	still := now.Sub(r.started) - time.Duration(last)
	return still, last > 0 && still >= pulseEvery+lateBy
}

// caughtUp reports whether the process has not stood still since it heard the other origins, or the wait
// for them is over.
func (r *Replica) caughtUp(now time.Time) (bool, string) {
	p := &r.pulse
	if still, late := r.stoodStill(now); late {
		return false, fmt.Sprintf("this process stood still for %v", still.Round(time.Millisecond))
	}
	if !p.waiting.Load() {
		return true, ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unheard := r.unheardSince(p.began, p.ended)
	if unheard == "" || now.Sub(p.ended) >= hearsWithin {
		p.waiting.Store(false)
		return true, ""
	}
	return false, fmt.Sprintf("this process stood still for %v and has not heard replica %s again",
		p.ended.Sub(p.began).Round(time.Millisecond), unheard)
}

// unheardSince names an origin that was heard when this process stood still, and not since; empty: there is
// none.
func (r *Replica) unheardSince(began, ended time.Time) string {
	for _, f := range r.origins.sorted() {
		wasLive := f.heard.Load() >= int64(began.Sub(r.started)-standsAfter) && !f.left.Load()
		if wasLive && f.fresh.Load() < int64(ended.Sub(r.started)) {
			return f.key.name
		}
	}
	return ""
}
