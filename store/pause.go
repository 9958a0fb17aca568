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
// than the minimum of free space. It closes the database, opens it and syncs it, as far as the
// failure requires that.
func (s *Store) resume(now time.Time) error {
	notYet := errors.New(s.status.notPersisting())
	if now.Before(s.retryAt) {
		return notYet
	}
	free, err := s.freeBytes(s.folder.Dir)
	if err == nil && free < s.cfg.MinFreeBytes+s.cfg.MinFreeBytes/4 {
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
