package store

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// lateAfter is the lag at which persistence counts as failing.
const lateAfter = 5 * time.Second

// A status is what the store says of itself. Any goroutine may read or write it.
type status struct {
	mu        sync.Mutex
	flushedAt time.Time // when the newest flush began that left nothing behind
	syncedAt  time.Time // when the newest sync began that succeeded
	off       string    // why nothing is persisted; empty: it is
	unlocked  string    // why the directory is not ours alone; empty: it is
	notices   []string  // what happened at the start and stays true
}

func (s *status) flushed(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushedAt = began
}

func (s *status) setSynced(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncedAt = began
}

func (s *status) synced() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncedAt
}

func (s *status) setOff(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = why
}

// setUnlocked reports whether that is news.
func (s *status) setUnlocked(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.unlocked != why
	s.unlocked = why
	return changed
}

func (s *status) notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, text)
}

func (s *status) read() (flushedAt time.Time, off string, notices []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushedAt, s.off, s.notices
}

func (s *status) isUnlocked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unlocked
}

// Lag is the age of the oldest change that may not be on disk: the time since the newest complete flush
// began. What is older survives the death of the process.
func (s *Store) Lag() time.Duration {
	at, _, _ := s.status.read()
	return time.Since(at)
}

// Detail says for the readiness page whether the store keeps up with what is applied, and what is to be said
// besides: that it started empty, for example, and where the damaged database is.
func (s *Store) Detail() (ok bool, message string) {
	at, off, notices := s.status.read()
	lag := time.Since(at)
	now := fmt.Sprintf("persisting, %.1f s behind", lag.Seconds())
	switch {
	case off != "":
		now = "not persisting: " + off
	case lag > lateAfter:
		now = fmt.Sprintf("the disk does not keep up: %.0f s behind", lag.Seconds())
	default:
		ok = true
	}
	said := []string{now}
	if unlocked := s.status.isUnlocked(); unlocked != "" {
		ok, said = false, append(said, unlocked)
	}
	return ok, strings.Join(append(said, notices...), "; ")
}
