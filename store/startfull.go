package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// startFull starts on a disk without the room that a database needs which is written to. What is there is restored all the same: reading
// needs none. Once there is room, the database is opened as after any pause, and what changed meanwhile goes into it.
func (s *Store) startFull(ctx context.Context, free uint64) error {
	began := time.Now()
	want := fmt.Sprintf("the disk has %s free and opening the database needs %s", mebibytes(free), mebibytes(leastFreeBytes))
	err := s.restoreOnly(ctx)
	s.count.restoreNanos.Store(int64(time.Since(began)))
	switch {
	case err == nil:
		s.pause(want, began)
		return nil
	case !errors.Is(err, errUnreadable):
		return err
	}
	s.unread = errors.New("it was not restored from, for want of space")
	s.pause(want+": nothing was restored: "+strings.TrimPrefix(err.Error(), errUnreadable.Error()+": "), began)
	return s.table.RestoreDone()
}

// errUnreadable: a database could not be read without writing, and the table was given nothing of it.
var errUnreadable = errors.New("the database cannot be read without room")

// restoreOnly restores from a database that is opened for reading alone, and closes it. Badger does not unmap the logs of such a one, so
// what they hold, some 8 MiB each, is free on the disk only when this process ends.
func (s *Store) restoreOnly(ctx context.Context) error {
	db, err := s.folder.openReadOnly(ctx, s.cfg, s.logger)
	if err != nil {
		return errors.Join(err, s.folder.endOpening())
	}
	if db == nil { // there is none
		return s.table.RestoreDone()
	}
	s.here = db
	err = s.restoreOpen(ctx)
	if errors.Is(err, format.ErrDamaged) {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if err == nil && s.count.failedBlocks.Load() > 0 {
		s.unread = errors.New("not all of it could be restored, and there was no room to keep what could not")
	}
	s.here = nil
	return errors.Join(err, db.Close(), s.folder.endOpening())
}

// openReadOnly checks, tries and opens the database as open does, but writes nothing: its logs are cut where what was committed ends, as
// Badger would. It returns nil where there is no database. Without room for a scratch folder the trial opens the database itself, for
// reading alone.
func (f *folder) openReadOnly(ctx context.Context, cfg Config, logger *slog.Logger) (*badger.DB, error) {
	fresh, err := checkManifest(f.database())
	if err == nil && fresh {
		return nil, nil
	}
	if err == nil {
		err = removeEmptyLogs(f.database())
	}
	if err == nil {
		torn := ""
		if torn, err = checkLogs(f.database()); torn != "" {
			logger.Warn("the last process did not finish a write", "detail", torn)
		}
	}
	if err == nil {
		err = cutLogs(f.database())
	}
	if err == nil {
		err = f.tryReadOnly(ctx, cfg.TrialTimeout)
	}
	if err == nil {
		if err = f.beginOpening(); durable.IsFull(err) {
			err = nil // the deaths of the process are not counted: the trial has to do
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, format.ErrVersion) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	db, err := badger.Open(readOnlyOptions(f.database()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return db, nil
}

// cutLogs cuts every log where what was committed ends, and removes one that has nothing: what is opened for reading alone must
// need no cut.
func cutLogs(dir string) error {
	for _, log := range listLogs(dir) {
		content, err := os.ReadFile(log.path)
		if err == nil {
			if read := walkLog(content[min(logHeaderBytes, len(content)):]); read.committed > 0 {
				err = os.Truncate(log.path, int64(logHeaderBytes+read.committed))
			} else {
				err = os.Remove(log.path)
			}
		}
		if err != nil {
			return fmt.Errorf("store: cannot cut the log %s: %w", filepath.Base(log.path), err)
		}
	}
	return nil
}
