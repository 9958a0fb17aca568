package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// syncSpacing is the least time between two flushes that Sync asks for: 20 in a period.
	syncSpacing = 20 * time.Millisecond
	// firstRetry and lastRetry bound the time between two attempts to go on after a failure.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// watchInterval is how often the lag is looked at.
	watchInterval = time.Second
)

// Run persists until ctx ends, then flushes and syncs once more: what was applied before ctx ended is on disk
// when it returns nil. It waits no longer than StopTimeout for a disk that does not answer; its error is then
// ErrStalled and says what is not on disk, and the goroutine that hangs is left behind. Call it once.
func (s *Store) Run(ctx context.Context) error {
	flushed, done := make(chan struct{}), make(chan error, 3)
	s.loops.Go(func() {
		err := s.flushUntil(ctx)
		close(flushed)
		done <- err
	})
	s.loops.Go(func() { done <- s.syncUntil(flushed) })
	s.loops.Go(func() { done <- s.watch(flushed) })
	<-ctx.Done()
	asked := time.Now()
	patience := time.NewTimer(s.cfg.StopTimeout)
	defer patience.Stop()
	var err error
	for range cap(done) {
		select {
		case one := <-done:
			err = errors.Join(err, one)
		case <-patience.C:
			return errors.Join(err, s.stalled(asked, flushed))
		}
	}
	return err
}

// ErrStalled: the disk did not answer in time. The message says what is not on disk.
var ErrStalled = errors.New("the disk does not answer")

// stalled says what is not on disk of what was applied before the end was asked for.
func (s *Store) stalled(asked time.Time, flushed <-chan struct{}) error {
	at, _, _ := s.status.read()
	what, remark := "flush", "is not on disk, but for what was acknowledged with sync=true"
	select {
	case <-flushed:
		at = s.status.synced()
		what, remark = "fsync", "is written but not on the platter: it outlives this process, but no power cut"
	default:
	}
	return fmt.Errorf("store: %w: waited %v for the last %s: what was applied after %s, %.1f s before the end, %s",
		ErrStalled, s.cfg.StopTimeout, what, at.UTC().Format(time.RFC3339), asked.Sub(at).Seconds(), remark)
}

// Close gives the database and the directory back. Call it after Run has returned. It returns ctx's error if
// the disk does not let it finish in time; the database's process is killed then, and has the directory until the disk
// lets it end.
func (s *Store) Close(ctx context.Context) error {
	if s.closed.Swap(true) {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		s.loops.Wait() // one may still hang in the disk
		done <- errors.Join(s.leave(), s.folder.release())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if a, ok := s.inUse().(*apart); ok {
			a.abandon()
		}
		return fmt.Errorf("store: the database did not close in time: %w", ctx.Err())
	}
}

// flushUntil is the flush goroutine.
func (s *Store) flushUntil(ctx context.Context) error {
	defer s.groups.end()
	defer context.AfterFunc(ctx, func() { s.ending.Store(true) })()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.lastStep()
		case <-s.kick:
		case <-timer.C:
		}
		began := time.Now()
		_ = s.step(began) // it is in the log, in Detail and in the metrics
		timer.Reset(time.Until(s.periodStart.Add(s.cfg.FlushInterval)))
		s.space(ctx, began)
	}
}

// lastStep flushes what is left. There is no later flush to make up for a failed one, so a failed one is tried again at
// once, on a database that is opened anew. Run bounds how long that may take.
func (s *Store) lastStep() error {
	err := s.step(time.Now())
	if err == nil {
		return nil
	}
	s.logger.Warn("the last flush is tried again", "error", err)
	s.retryAt = time.Time{}
	return s.step(time.Now())
}

// space keeps flushes that Sync asks for apart.
func (s *Store) space(ctx context.Context, began time.Time) {
	pause := time.NewTimer(time.Until(began.Add(min(syncSpacing, s.cfg.FlushInterval))))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// syncUntil is the syncing goroutine: it syncs every SyncInterval and for the callers of Sync, and keeps the
// manifest's copy. It ends after the sync that follows the last flush.
func (s *Store) syncUntil(flushed <-chan struct{}) error {
	often := time.NewTicker(min(s.cfg.FlushInterval, 50*time.Millisecond))
	defer often.Stop()
	next := time.Now().Add(s.cfg.SyncInterval)
	for {
		select {
		case <-flushed:
			return s.syncOnce()
		case <-s.groups.ready:
			_ = s.syncOnce() // its callers have the error
		case now := <-often.C:
			s.renewCopy()
			if now.After(next) {
				_ = s.syncOnce()
				next = now.Add(s.cfg.SyncInterval)
			}
		}
	}
}

// watch says in the log when the disk falls behind, once a minute, and when it has caught up, and looks at the lock.
// The flush goroutine cannot: it may hang in the disk.
func (s *Store) watch(flushed <-chan struct{}) error {
	every := time.NewTicker(watchInterval)
	defer every.Stop()
	var saidAt time.Time
	for {
		select {
		case <-flushed:
			return nil
		case now := <-every.C:
			s.watchLock()
			lag := s.Lag()
			switch {
			case lag > lateAfter && now.Sub(saidAt) > time.Minute:
				_, detail := s.Detail()
				s.logger.Error("persistence is behind", "lag", lag.Round(time.Second), "detail", detail)
				saidAt = now
			case lag <= lateAfter && !saidAt.IsZero():
				s.logger.Info("persistence has caught up")
				saidAt = time.Time{}
			}
		}
	}
}

func (s *Store) watchLock() {
	err := s.folder.checkLock()
	if err == nil {
		s.status.setUnlocked("")
		return
	}
	if s.status.setUnlocked(err.Error()) {
		s.logger.Error("the data directory is not locked any more", "error", err)
	}
}
