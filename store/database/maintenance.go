package database

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/sluice-metrics/sluice/store/wal"
)

// maintenance is what an open database needs besides writes: preallocated logs, fsyncs, the
// watermark that says how far they reached, and the copy of the manifest. All of it may wait for
// the disk, so the process that has the database open does it.
type maintenance struct {
	dir    string
	logger *slog.Logger
	logs   preallocator // owned by the goroutine that writes to the database

	mu        sync.Mutex // guards the following
	manifest  manifestCopy
	watermark wal.Watermark
	ended     bool // the folder may be another database's by now
}

// beginMaintenance takes over the files of a database that was just opened.
func beginMaintenance(dir string, logger *slog.Logger) (*maintenance, error) {
	m := &maintenance{dir: dir, logger: logger, logs: preallocator{dir: dir}, manifest: manifestCopy{dir: dir}, watermark: wal.NewWatermark(dir)}
	if err := m.logs.preallocate(); err != nil {
		logger.Warn("no space could be reserved for the logs", "error", err)
	}
	m.watermark.Positions = wal.ReadWatermark(dir).Positions // of logs that are no tables yet
	return m, errors.Join(m.manifest.renew(), m.watermark.Write())
}

// sync fsyncs the logs and then writes the watermark, as observed before the fsync.
func (m *maintenance) sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrClosed
	}
	observed := m.watermark.Observe()
	if err := wal.Sync(m.dir); err != nil {
		return err
	}
	if err := errors.Join(observed, m.watermark.Write()); err != nil {
		m.logger.Warn("the logs' watermark could not be written", "error", err)
	}
	return nil
}

// copyManifest copies the manifest if it has changed.
func (m *maintenance) copyManifest() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrClosed
	}
	if err := m.manifest.renew(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// end follows the closing of the database.
func (m *maintenance) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil
	}
	m.ended = true
	return errors.Join(m.logs.end(), m.manifest.renew())
}
