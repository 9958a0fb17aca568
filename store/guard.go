package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/store/format"
)

// step is one flush, whatever state the disk is in.
func (s *Store) step(began time.Time) error {
	members := s.groups.takeWaiting()
	s.urgent = members != nil
	err := s.ready(began)
	if err == nil {
		err = s.flushOnce(began)
		switch {
		case errors.Is(err, errNoRoom):
			s.pause(err.Error(), began)
		case err != nil:
			s.count.failures.Add(1)
			s.spent = true
			s.fail(err, began)
		}
	}
	s.urgent = false
	switch {
	case members == nil:
	case err != nil:
		members.end(fmt.Errorf("store: %w: %w", ErrNotPersisting, err))
	default:
		s.groups.addFlushed(members)
	}
	return err
}

// isUrgent says whether somebody waits for this flush, or for the next one.
func (s *Store) isUrgent() bool { return s.urgent || s.ending.Load() || s.groups.wanted() }

// flushOnce gives the flush its sequence and runs it.
func (s *Store) flushOnce(began time.Time) error {
	same := began.Before(s.periodStart.Add(s.cfg.FlushInterval - time.Millisecond))
	s.seq = s.seq.Next(same)
	if s.seq.OpensPeriod() {
		s.periodStart = began
	}
	err := s.flush.run(s.db, s.seq)
	s.count.flushNanos.Add(int64(time.Since(began) - s.flush.pace.rested))
	s.count.writtenBytes.Store(s.flush.batch.written)
	if err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	s.count.flushes.Add(1)
	s.retryAfter = 0
	s.status.flushed(began)
	return nil
}

// ready makes sure that there is a database and room for it, or says why not.
func (s *Store) ready(now time.Time) error {
	if err := s.unsynced.Load(); err != nil && !s.resync {
		s.spent, s.resync = true, true
		s.fail(*err, now)
		return *err
	}
	_, off, _ := s.status.read()
	if s.db == nil || off != "" {
		return s.revive(now)
	}
	err := s.room(0)
	switch {
	case errors.Is(err, errNoRoom):
		s.pause(err.Error(), now)
	case err != nil:
		s.fail(err, now)
	}
	return err
}

// room says whether the disk has room for a batch, for the memtable's log that it may begin and for the table
// that it may cause: MinFreeBytes covers those. It comes right before every batch. The logs' own room is reserved by
// the process of the database.
func (s *Store) room(bytes int) error {
	free, err := s.free(s.folder.dir)
	if err != nil {
		return err
	}
	if free < s.cfg.MinFreeBytes+uint64(bytes) {
		return fmt.Errorf("%w: it has %s free, less than the %s that must stay free",
			errNoRoom, mebibytes(free), mebibytes(s.cfg.MinFreeBytes))
	}
	return nil
}

// revive goes on after a pause or a failure.
func (s *Store) revive(now time.Time) error {
	if now.Before(s.retryAt) {
		return s.offError()
	}
	free, err := s.free(s.folder.dir)
	if err == nil && free < s.cfg.MinFreeBytes+s.cfg.MinFreeBytes/4 {
		return s.offError()
	}
	if err == nil && s.spent {
		if err := s.closeDatabase(); err != nil {
			s.logger.Error("the database did not close well", "error", err)
		}
		s.spent = false
	}
	if err == nil && s.db == nil {
		err = s.reopen()
	}
	if err == nil && s.resync {
		err = s.syncLogs()
		s.spent = err != nil
	}
	if err != nil {
		s.fail(err, now)
		return err
	}
	s.resync = false
	s.status.setOff("")
	s.logger.Info("persisting again")
	return nil
}

func (s *Store) reopen() error {
	if s.unread != nil {
		fresh, err := checkManifest(s.folder.database())
		if err != nil && !errors.Is(err, format.ErrDamaged) {
			return err
		}
		if !fresh {
			if err := s.exchangeAs(unrestored, s.unread, s.apart); err != nil {
				return err
			}
			s.unread = nil
			return nil
		}
		s.unread = nil
	}
	o, err := s.folder.open(context.Background(), s.cfg, s.apart, s.logger)
	if err == nil {
		s.adopt(o)
	}
	return errors.Join(err, s.folder.endOpening())
}

// pause stops persisting while the disk is too full. The database stays open: closing it would write its memtable
// into a table, through mapped memory, on the disk that is full.
func (s *Store) pause(why string, now time.Time) {
	s.status.setOff(why)
	s.logger.Error("not persisting", "reason", why)
	s.retryAt = now.Add(firstRetry)
}

// fail stops persisting after an error, for a while that doubles from failure to failure. Badger ends the process
// when it is written to after some of its errors; it is closed before the next attempt, when there is room.
func (s *Store) fail(reason error, now time.Time) {
	s.retryAfter = min(max(2*s.retryAfter, firstRetry), lastRetry)
	s.retryAt = now.Add(s.retryAfter)
	s.status.setOff(reason.Error())
	s.logger.Error("not persisting", "reason", reason, "retry_after", s.retryAfter)
}

func (s *Store) offError() error {
	_, off, _ := s.status.read()
	return errors.New(off)
}

// renewCopy copies the manifest if it has changed. What was never opened stays as it was found: what is missing there
// shows by the copy.
func (s *Store) renewCopy() {
	db := s.inUse()
	if db == nil {
		return
	}
	if err := db.renewCopy(); err != nil && !errors.Is(err, errClosing) {
		s.logger.Warn("the manifest could not be copied", "error", err)
	}
}
