package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// syncs are the questions to other replicas whether they have applied a flush.
type syncs struct {
	r *Replica

	mu       sync.Mutex
	applied  map[originKey]uint64 // the newest flush that a replica has said to have
	answered chan struct{}        // closed by the next answer
}

func (s *syncs) init(r *Replica) {
	s.r, s.applied, s.answered = r, map[originKey]uint64{}, make(chan struct{})
}

// SyncAll returns when every live replica has applied all that was applied here before the call.
// Its error names the replicas that have not.
func (r *Replica) SyncAll(ctx context.Context) error {
	// A flush in progress may have passed a block before the call. The one after it has not.
	newest, ended := r.publisher.flushes()
	for flush := newest; flush < newest+2; flush, ended = r.publisher.flushes() {
		r.parts.FlushSoon()
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("replica: no flush has ended: %w", ctx.Err())
		}
	}
	return r.syncs.confirm(ctx, newest+2)
}

// syncEvery is the time between two questions.
const syncEvery = 50 * time.Millisecond

// confirm asks all live replicas until each has applied a flush.
func (s *syncs) confirm(ctx context.Context, flush uint64) error {
	m := syncBody{of: s.r.me, flush: flush}
	every := time.NewTicker(syncEvery)
	defer every.Stop()
	ask := true
	for {
		missing, answered := s.missing(flush)
		if len(missing) == 0 {
			return nil
		}
		if ask {
			s.r.send(s.r.subjects.of(flowOf, s.r.me.name, topicSync), typeSync, m.append(nil), nil)
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

// missing names the live replicas that have not confirmed a flush.
func (s *syncs) missing(flush uint64) (names []string, answered <-chan struct{}) {
	live := s.r.origins.live(s.r.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range live {
		if s.applied[f.key] < flush {
			names = append(names, f.key.name)
		}
	}
	return names, s.answered
}

// answer enters an answer.
func (s *syncs) answer(h *header, m *syncBody) {
	if m.of.epoch != s.r.me.epoch || m.of.incarnation != s.r.me.incarnation {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := originKey{h.name, h.epoch}
	if _, known := s.applied[key]; !known && len(s.applied) >= 2*maxOrigins {
		clear(s.applied) // of origins that came and went
	}
	s.applied[key] = max(s.applied[key], m.flush)
	close(s.answered)
	s.answered = make(chan struct{})
}
