package store

import (
	"context"
	"fmt"
	"sync"
)

// A group is the callers of Sync that one flush and one fsync serve. err is written before done is closed.
type group struct {
	done chan struct{}
	err  error
}

func (g *group) end(err error) {
	g.err = err
	close(g.done)
}

// groups brings the callers of Sync to the flush goroutine, and from there to the syncing one.
type groups struct {
	mu      sync.Mutex
	waiting *group        // joins the next flush to begin
	flushed []*group      // joins the next fsync to begin
	ready   chan struct{} // wakes the syncing goroutine
	ended   bool          // nobody flushes any more
}

// join returns the group of the next flush, or nil if there will be none.
func (g *groups) join() *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil
	}
	if g.waiting == nil {
		g.waiting = &group{done: make(chan struct{})}
	}
	return g.waiting
}

// wanted says whether anybody waits for the next flush.
func (g *groups) wanted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting != nil
}

func (g *groups) takeWaiting() *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.waiting
	g.waiting = nil
	return taken
}

func (g *groups) addFlushed(one *group) {
	g.mu.Lock()
	g.flushed = append(g.flushed, one)
	g.mu.Unlock()
	wake(g.ready)
}

// wake leaves word for a goroutine that may be busy.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (g *groups) takeFlushed() []*group {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.flushed
	g.flushed = nil
	return taken
}

// end refuses who waits and who comes.
func (g *groups) end() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	if one := g.takeWaiting(); one != nil {
		one.end(fmt.Errorf("store: %w: the store is being closed", ErrNotPersisting))
	}
}

// Sync returns when all that was applied before the call is on the platter: flushed and synced. Callers that
// come at the same time share both. The error is ErrNotPersisting with the reason, that of the disk, or ctx's;
// then nothing is known of what was applied.
func (s *Store) Sync(ctx context.Context) error {
	if _, off, _ := s.status.read(); off != "" {
		return fmt.Errorf("store: %w: %s", ErrNotPersisting, off)
	}
	mine := s.groups.join()
	if mine == nil {
		return fmt.Errorf("store: %w: the store is closed", ErrNotPersisting)
	}
	wake(s.kick)
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return fmt.Errorf("store: not yet on disk: %w", ctx.Err())
	}
}
