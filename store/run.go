package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// syncSpacing is the least time between two flushes that Sync requests: 25 in a period.
	syncSpacing = 20 * time.Millisecond
	// defaultWatchInterval is the time between two checks of the lag and the lock.
	defaultWatchInterval = time.Second
)

// ErrStalled: the disk did not answer in time. The message says what is not on disk.
var ErrStalled = errors.New("the disk does not answer")

// Run persists until ctx ends, then flushes and syncs once more: when it returns nil, all that was
// applied before ctx ended is on disk. It waits StopTimeout at most for the disk. Then its error is
// ErrStalled, and the goroutine that hangs is left behind. Call it once.
func (s *Store) Run(ctx context.Context) error {
	flushed, done := make(chan struct{}), make(chan error, 3)
	s.loops.Go(func() {
		err := s.flushLoop(ctx)
		close(flushed)
		done <- err
	})
	s.loops.Go(func() { done <- s.syncLoop(flushed) })
	s.loops.Go(func() { done <- s.watchLoop(flushed) })
	<-ctx.Done()
	stopping := time.Now()
	timeout := time.NewTimer(s.cfg.StopTimeout)
	defer timeout.Stop()
	var err error
	for range cap(done) {
		select {
		case one := <-done:
			err = errors.Join(err, one)
		case <-timeout.C:
			return errors.Join(err, s.stalled(stopping, flushed))
		}
	}
	return err
}

// stalled says which samples, applied before stopping, are not on disk.
func (s *Store) stalled(stopping time.Time, flushed <-chan struct{}) error {
	at := s.status.lastFlush()
	what, remark := "flush", "is not on disk, except samples acknowledged with sync=true"
	select {
	case <-flushed:
		at = s.status.lastSync()
		what, remark = "fsync", "is written but not on stable storage: it survives the end of this process, but no power cut"
	default:
	}
	return fmt.Errorf("store: %w: waited %v for the last %s: what was applied after %s, %.1f s before the end, %s",
		ErrStalled, s.cfg.StopTimeout, what, at.UTC().Format(time.RFC3339), stopping.Sub(at).Seconds(), remark)
}

// Close closes the database and releases the data folder. Call it after Run has returned. It
// returns ctx's error if the disk doesn't let it finish in time; then the storage process is
// killed, and holds the folder's lock until the disk lets it end.
func (s *Store) Close(ctx context.Context) error {
	if s.closed.Swap(true) {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		s.loops.Wait() // one may still wait for the disk
		done <- errors.Join(s.endDatabase(), s.folder.Release())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if db := s.sharedDatabase(); db != nil {
			db.Abandon()
		}
		return fmt.Errorf("store: the database did not close in time: %w", ctx.Err())
	}
}

// flushLoop is the flush goroutine.
func (s *Store) flushLoop(ctx context.Context) error {
	defer s.syncs.end()
	defer context.AfterFunc(ctx, func() { s.ending.Store(true) })()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.lastFlush()
		case <-s.wakeFlush:
		case <-timer.C:
		}
		began := time.Now()
		_ = s.flushStep(began) // the log, Detail and the metrics have the error
		timer.Reset(time.Until(s.periodStart.Add(s.cfg.FlushInterval)))
		s.waitSpacing(ctx, began)
	}
}

// lastFlush flushes at the end. No later flush can make up for a failed one, so it retries once,
// with the database opened again. Run bounds how long that may take.
func (s *Store) lastFlush() error {
	err := s.flushStep(time.Now())
	if err == nil {
		return nil
	}
	s.logger.Warn("the last flush failed; trying again", "error", err)
	s.retryAt = time.Time{}
	return s.flushStep(time.Now())
}

// waitSpacing separates flushes that Sync requests.
func (s *Store) waitSpacing(ctx context.Context, began time.Time) {
	wait := time.NewTimer(time.Until(began.Add(min(syncSpacing, s.cfg.FlushInterval))))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// syncLoop is the syncing goroutine: it syncs every SyncInterval and for the callers of Sync. It
// ends after the sync that follows the last flush.
func (s *Store) syncLoop(flushed <-chan struct{}) error {
	every := time.NewTicker(s.cfg.SyncInterval)
	defer every.Stop()
	for {
		select {
		case <-flushed:
			return s.syncOnce()
		case <-s.syncs.ready:
			_ = s.syncOnce() // its callers have the error
		case <-every.C:
			_ = s.syncOnce() // the log and the metrics have the error
		}
	}
}

// watchLoop logs once a minute that the disk falls behind, and when it has caught up, and checks
// the lock. It is a goroutine of its own because the flush goroutine may wait for the disk.
func (s *Store) watchLoop(flushed <-chan struct{}) error {
	every := time.NewTicker(s.watchInterval)
	defer every.Stop()
	var loggedAt time.Time
	for {
		select {
		case <-flushed:
			return nil
		case now := <-every.C:
			s.checkLock()
			lag := s.Lag()
			switch {
			case lag > s.status.lateAfter && now.Sub(loggedAt) > time.Minute:
				_, detail := s.Detail()
				s.logger.Error("persistence is behind", "lag", lag.Round(time.Second), "detail", detail)
				loggedAt = now
			case lag <= s.status.lateAfter && !loggedAt.IsZero():
				s.logger.Info("persistence has caught up")
				loggedAt = time.Time{}
			}
		}
	}
}

func (s *Store) checkLock() {
	err := s.folder.CheckLock()
	if err == nil {
		s.status.setLockLost("")
		return
	}
	if s.status.setLockLost(err.Error()) {
		s.logger.Error("the data folder is no longer locked", "error", err)
	}
}
