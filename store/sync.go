package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
)

// Sync returns when all that was applied before the call is on stable storage: flushed and fsynced.
// Concurrent callers share both. The error is ErrNotPersisting with the reason, that of the disk,
// or ctx's; after an error it is unknown how much is on stable storage.
func (s *Store) Sync(ctx context.Context) error {
	if why := s.status.notPersisting(); why != "" {
		return fmt.Errorf("store: %w: %s", ErrNotPersisting, why)
	}
	mine := s.syncs.join()
	if mine == nil {
		return fmt.Errorf("store: %w: the store is closed", ErrNotPersisting)
	}
	wake(s.wakeFlush)
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return fmt.Errorf("store: not yet on disk: %w", ctx.Err())
	}
}

// A syncGroup is the callers of Sync that one flush and one fsync serve (group commit). err is
// written before done is closed.
type syncGroup struct {
	done chan struct{}
	err  error
}

func (g *syncGroup) end(err error) {
	g.err = err
	close(g.done)
}

// syncGroups pass from the callers of Sync to the flush goroutine, and from there to the syncing
// goroutine.
type syncGroups struct {
	mu      sync.Mutex
	waiting *syncGroup    // joins the next flush to begin
	flushed []*syncGroup  // join the next fsync to begin
	ready   chan struct{} // wakes the syncing goroutine
	ended   bool          // there will be no flush
}

// join returns the group of the next flush, or nil if there will be none.
func (g *syncGroups) join() *syncGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil
	}
	if g.waiting == nil {
		g.waiting = &syncGroup{done: make(chan struct{})}
	}
	return g.waiting
}

// isWaiting reports whether a caller waits for the next flush.
func (g *syncGroups) isWaiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting != nil
}

func (g *syncGroups) takeWaiting() *syncGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.waiting
	g.waiting = nil
	return taken
}

func (g *syncGroups) addFlushed(s *syncGroup) {
	g.mu.Lock()
	g.flushed = append(g.flushed, s)
	g.mu.Unlock()
	wake(g.ready)
}

func (g *syncGroups) takeFlushed() []*syncGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.flushed
	g.flushed = nil
	return taken
}

// end rejects the callers that wait and all later ones.
func (g *syncGroups) end() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	if s := g.takeWaiting(); s != nil {
		s.end(fmt.Errorf("store: %w: the store is being closed", ErrNotPersisting))
	}
}

// wake wakes a goroutine now, or once it is no longer busy.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// After a failed fsync the kernel may drop the pages that it couldn't write, and the next fsync
// succeeds without them (fsync(2)). So no fsync follows a failed one (docs/adr/0043). The flush
// goroutine closes the database, which writes its memtable into a new file, and opens it again. The
// store persists again once an fsync of that has succeeded.

// errSyncFailed: an earlier fsync failed, and the database hasn't been closed since.
var errSyncFailed = errors.New("the database's logs are unusable after a failed sync")

// syncOnce syncs for all groups whose flush is done.
func (s *Store) syncOnce() error {
	groups := s.syncs.takeFlushed()
	err := s.syncLogs()
	closed, failedBefore := errors.Is(err, database.ErrClosed), errors.Is(err, errSyncFailed)
	result := err
	switch {
	case closed, failedBefore:
		result = fmt.Errorf("store: %w: %w", ErrNotPersisting, err)
	default:
		s.count.syncs.Add(1)
		if err != nil {
			s.count.failures.Add(1)
			s.logger.Error("the database could not be synced", "error", err)
			s.status.setNotPersisting(err.Error())
		}
	}
	for _, g := range groups {
		g.end(result)
	}
	if closed {
		return nil
	}
	return err
}

// syncLogs syncs the open database, unless an fsync failed before. It returns database.ErrClosed
// while there is none.
func (s *Store) syncLogs() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if before := s.syncFailed.Load(); before != nil {
		return fmt.Errorf("%w: %w", errSyncFailed, *before)
	}
	db, began, flushed := s.sharedDatabase(), time.Now(), s.status.lastFlush()
	if db == nil {
		return database.ErrClosed
	}
	err := db.Sync()
	switch {
	case err == nil:
		s.status.setSynced(began, flushed)
	case !errors.Is(err, database.ErrClosed):
		s.syncFailed.Store(&err)
	}
	return err
}

// forgetFailedSync allows fsyncs again once the database has closed. A database that didn't close
// well still has the logs of the failed fsync, so it must be opened and closed once more. But where
// the fsync failed because the storage process had died, the kernel still has all that was written.
func (s *Store) forgetFailedSync(closeErr error) {
	failed := s.syncFailed.Load()
	if closeErr == nil || failed != nil && errors.Is(*failed, database.ErrDied) {
		s.syncFailed.Store(nil)
	}
}
