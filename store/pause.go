package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// firstRetry and lastRetry bound the time between two attempts to persist again after a failure.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// ready makes sure that there is an open database and disk space, or returns why not.
func (s *Store) ready(now time.Time) error {
	if err := s.syncFailed.Load(); err != nil && !s.mustSync {
		s.mustReopen, s.mustSync = true, true
		s.fail(*err, now)
		return *err
	}
	if s.db == nil || s.status.notPersisting() != "" {
		return s.resume(now)
	}
	if now.Sub(s.hadSpace) < time.Second { // each transaction looks, too
		return nil
	}
	err := s.checkSpace(0)
	switch {
	case errors.Is(err, database.ErrDiskFull):
		s.pause(err.Error(), now)
	case err != nil:
		s.fail(err, now)
	}
	return err
}

// checkSpace returns database.ErrDiskFull if the disk lacks space for a transaction. MinFreeBytes
// covers the log that the transaction may begin and the table that it may cause. The logs' own
// space is preallocated.
func (s *Store) checkSpace(bytes int) error {
	free, err := s.freeBytes(s.folder.Dir)
	if err != nil {
		return err
	}
	if free < s.cfg.MinFreeBytes+uint64(bytes) {
		return fmt.Errorf("%w: it has %s free; at least %s must stay free",
			database.ErrDiskFull, mebibytes(free), mebibytes(s.cfg.MinFreeBytes))
	}
	s.hadSpace = time.Now()
	return nil
}

// pause stops persisting while the disk is too full. The database stays open: closing it would
// write its memtable into a table, through mapped memory, on the full disk.
func (s *Store) pause(why string, now time.Time) {
	s.status.setNotPersisting(why)
	s.logger.Error("not persisting", "reason", why)
	s.retryAt = now.Add(firstRetry)
}

// fail stops persisting after an error, for a time that doubles from failure to failure. After some
// of its errors, Badger ends the process at the next write, so resume closes the database first.
func (s *Store) fail(reason error, now time.Time) {
	s.retryAfter = min(max(2*s.retryAfter, firstRetry), lastRetry)
	s.retryAt = now.Add(s.retryAfter)
	s.status.setNotPersisting(reason.Error())
	s.logger.Error("not persisting", "reason", reason, "retry_after", s.retryAfter)
}

// resume persists again after a pause or a failure, if it is time and the disk has a quarter more
// than the minimum of free space; at the end of the process, the minimum. It closes the database,
// opens it and syncs it, as far as the failure requires that.
func (s *Store) resume(now time.Time) error {
	notYet := errors.New(s.status.notPersisting())
	if now.Before(s.retryAt) {
		return notYet
	}
	free, err := s.freeBytes(s.folder.Dir)
	needed := s.cfg.MinFreeBytes
	if !s.ending.Load() { // else there is no later flush
		needed += needed / 4
	}
	if err == nil && free < needed {
		s.freeObsolete(free)
		return notYet
	}
	if err == nil && s.mustReopen {
		if err := s.flusher.await(s.closeDatabase); err != nil {
			s.logger.Error("the database did not close well", "error", err)
		}
		s.mustReopen = false
	}
	if err == nil && s.db == nil {
		err = s.reopen()
	}
	if err == nil && s.mustSync {
		err = s.flusher.await(s.syncLogs)
		s.mustReopen = err != nil
	}
	if err != nil {
		s.fail(err, now)
		return err
	}
	s.mustSync = false
	s.status.setNotPersisting("")
	s.logger.Info("persisting again")
	return nil
}

// freeObsolete begins a compaction, as otherwise only commits do. FreeBytes leaves it the space that
// it needs, unless others have filled the disk.
func (s *Store) freeObsolete(free uint64) {
	if s.db == nil || s.mustReopen || s.ending.Load() || free < database.LeastFreeBytes {
		return
	}
	if err := s.flusher.await(s.db.Compact); err != nil {
		s.mustReopen = true
	}
}

// reopen opens the database, or replaces one that a start on a full disk couldn't restore.
func (s *Store) reopen() error {
	if unrestored := s.unrestored; unrestored != nil {
		fresh, err := database.CheckManifest(s.folder.Database())
		if err != nil && !errors.Is(err, format.ErrDamaged) {
			return err
		}
		if !fresh {
			err := s.replaceDatabase(folder.Unrestored, unrestored, s.place)
			if err == nil {
				s.unrestored = nil
			}
			return err
		}
		s.unrestored = nil
	}
	var opened database.Opened
	err := s.flusher.await(func() (err error) {
		opened, err = s.opener.Open(context.Background(), s.place)
		return err
	})
	if err == nil {
		s.adopt(opened)
	}
	return errors.Join(err, s.folder.EndRestore())
}

// A pacer spreads a flush over part of the flush interval, so goroutines that answer requests get
// the processor in between (docs/adr/0031). The flush sleeps rather than yields, because Go polls
// its sockets only when no goroutine is ready, and a goroutine that yields is ready. It sleeps for
// long, because a goroutine that wakes from a short sleep runs before all others that became ready
// meanwhile. On one processor, a flush of 50 ms that only yields makes requests wait for all of it.
//
// The pacer expects a flush to take as much work as the last one; a longer flush uses the rest of
// the interval. Waiting for the storage process counts as work, because that process works
// meanwhile.
type pacer struct {
	urgent func() bool // somebody waits for the flush

	spread time.Duration // how long a flush is to last
	until  time.Time     // end of that time
	begun  time.Time     // beginning of the slice
	worked time.Duration // in this flush
	rested time.Duration // in this flush
	ratio  float64       // of rest to work
}

const (
	// maxSpread bounds the spread: a change just after a flush passed its block waits for an
	// interval and the spread.
	maxSpread = 200 * time.Millisecond
	slice     = 500 * time.Microsecond
	// shortestRest follows a slice after the spread is over, urgentRest where somebody waits for
	// the flush.
	shortestRest = slice / 2
	urgentRest   = slice / 10
	maxRatio     = 8
	// maxCounted bounds the work that determines one rest: a slice may have waited for the disk or
	// the processor, and nothing ends a rest early.
	maxCounted = 2 * slice
)

// begin begins a flush.
func (p *pacer) begin() {
	p.ratio = maxRatio
	if p.worked > 0 {
		p.ratio = min(float64(p.spread)/float64(p.worked)-1, maxRatio)
	}
	p.begun, p.worked, p.rested = time.Now(), 0, 0
	p.until = p.begun.Add(p.spread)
}

// step sleeps if the slice is over. It is called after each block and document.
func (p *pacer) step() {
	now := time.Now()
	worked := now.Sub(p.begun)
	if worked < slice {
		return
	}
	p.worked += worked
	time.Sleep(p.rest(worked, now))
	p.begun = time.Now()
	p.rested += p.begun.Sub(now)
}

// rest is how long to sleep after some work.
func (p *pacer) rest(worked time.Duration, now time.Time) time.Duration {
	if p.urgent() {
		return urgentRest
	}
	return max(min(time.Duration(p.ratio*float64(min(worked, maxCounted))), p.until.Sub(now)), shortestRest)
}
