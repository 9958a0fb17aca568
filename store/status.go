package store

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// defaultLateAfter is the lag at which persistence counts as failing.
const defaultLateAfter = 5 * time.Second

// A status is the store's state as Detail reports it. Any goroutine may read or write it.
type status struct {
	lateAfter time.Duration // constant

	mu        sync.Mutex // guards the following
	flushedAt time.Time  // beginning of the newest flush that succeeded
	syncedAt  time.Time  // beginning of the newest sync that succeeded
	durable   time.Time  // beginning of the newest flush that a sync has covered
	off       string     // why nothing is persisted; empty: it is
	lockLost  string     // why another process may use the folder; empty: none may
	notices   []string   // events of the start, which stay true
}

func (s *status) flushed(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushedAt = began
}

func (s *status) lastFlush() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushedAt
}

// setSynced notes a sync that succeeded, and the beginning of the last flush before it.
func (s *status) setSynced(began, flushed time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncedAt, s.durable = began, flushed
}

func (s *status) lastSync() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncedAt
}

func (s *status) setNotPersisting(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = why
}

// notPersisting is why nothing is persisted, empty if it is.
func (s *status) notPersisting() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}

// setLockLost reports whether the reason has changed.
func (s *status) setLockLost(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.lockLost != why
	s.lockLost = why
	return changed
}

func (s *status) notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, text)
}

// Lag is the age of the oldest change that may not be on disk: the time since the newest complete
// flush began. Older changes survive the death of the process.
func (s *Store) Lag() time.Duration { return time.Since(s.status.lastFlush()) }

// Durable returns a moment: what was applied before it is on stable storage. It is not ok while nothing is persisted.
func (s *Store) Durable() (moment time.Time, ok bool) {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	return s.status.durable, s.status.off == ""
}

// Detail is for the readiness page. ok says whether the store keeps up with the samples applied.
// The message also contains events of the start, for example that the store started empty and where
// the damaged database is.
func (s *Store) Detail() (ok bool, message string) {
	lag := s.Lag()
	status := &s.status
	status.mu.Lock()
	defer status.mu.Unlock()
	now := fmt.Sprintf("persisting, %.1f s behind", lag.Seconds())
	switch {
	case status.off != "":
		now = "not persisting: " + status.off
	case lag > status.lateAfter:
		now = fmt.Sprintf("the disk does not keep up: %.0f s behind", lag.Seconds())
	default:
		ok = true
	}
	parts := []string{now}
	if status.lockLost != "" {
		ok, parts = false, append(parts, status.lockLost)
	}
	return ok, strings.Join(append(parts, status.notices...), "; ")
}
