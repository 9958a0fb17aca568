package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/sluice-metrics/sluice/durable"
)

// An upkeep is what an open database needs besides writes: room for its logs, fsyncs, the note of how far they went
// and the copy of its manifest. All of it may wait for the disk, so the process that has the database open does it.
type upkeep struct {
	dir     string
	logger  *slog.Logger
	reserve reserve // its owner writes to the database

	mu    sync.Mutex // guards what follows
	copy  manifestCopy
	note  logNote
	ended bool // the folder may be another database's by now
}

// errClosing: the database is closed or exchanged; what is to be synced may be in the next one.
var errClosing = errors.New("the database is being closed")

// beginUpkeep takes over what there is of a database that was just opened.
func beginUpkeep(dir string, logger *slog.Logger) (*upkeep, error) {
	u := &upkeep{dir: dir, logger: logger, reserve: reserve{dir: dir}, copy: manifestCopy{dir: dir}, note: newNote(dir)}
	if err := u.reserve.renew(); err != nil {
		logger.Warn("no room could be reserved for the logs", "error", err)
	}
	u.note.marks = readNote(dir).marks // of logs that are not tables yet
	return u, errors.Join(u.copy.renew(), u.note.write())
}

// sync syncs and notes how far. What is noted was observed before.
func (u *upkeep) sync() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return errClosing
	}
	observed := u.note.observe()
	if err := syncDatabase(u.dir); err != nil {
		return err
	}
	if err := errors.Join(observed, u.note.write()); err != nil {
		u.logger.Warn("how far the database is synced could not be noted", "error", err)
	}
	return nil
}

// renewCopy copies the manifest if it has changed.
func (u *upkeep) renewCopy() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return errClosing
	}
	if err := u.copy.renew(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// end follows the closing of the database.
func (u *upkeep) end() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return nil
	}
	u.ended = true
	return errors.Join(u.reserve.end(), u.copy.renew())
}

// syncDatabase brings all that was committed to the platter. Badger's own Sync holds a lock that stops its writer,
// and leaves out the logs of memtables that wait to become tables; fsync on the same file does neither.
// A log that is gone meanwhile has become a table, which was synced.
func syncDatabase(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		if err := durable.Sync(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store: cannot sync: %w", err)
		}
	}
	if err := durable.Sync(dir); err != nil {
		return fmt.Errorf("store: cannot sync: %w", err)
	}
	return nil
}
