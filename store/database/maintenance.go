package database

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/store/wal"
)

// maintenance is what an open database needs besides writes: preallocated logs, fsyncs, the
// watermark that says how far they reached, the copy of the manifest, and compactions. All of it
// may wait for the disk, so the process that has the database open does it.
//
// The manifest changes with the set of tables, and tables come of commits. So each commit looks at
// the manifest's size, and nothing wakes up while there are no commits.
type maintenance struct {
	dir       string
	logger    *slog.Logger
	compactor *compactor

	// The goroutine that writes to the database owns the next three.
	logs         preallocator
	seenManifest os.FileInfo   // as the last commit saw it
	changed      chan struct{} // wakes the goroutine that follows the manifest; nil: stopped

	following sync.WaitGroup

	mu        sync.Mutex // guards the following
	manifest  manifestCopy
	watermark wal.Watermark
	ended     bool // the folder may be another database's by now
}

// beginMaintenance takes over the files of a database that was just opened.
func beginMaintenance(dir string, compactor *compactor, logger *slog.Logger) (*maintenance, error) {
	m := &maintenance{
		dir: dir, logger: logger, compactor: compactor,
		logs: preallocator{dir: dir}, manifest: manifestCopy{dir: dir}, watermark: wal.NewWatermark(dir),
	}
	if err := m.logs.preallocate(); err != nil {
		logger.Warn("no space could be reserved for the logs", "error", err)
	}
	m.watermark.Positions = wal.ReadWatermark(dir).Positions // of logs that are no tables yet
	if err := errors.Join(m.manifest.renew(), m.watermark.Write()); err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	m.changed = changed
	m.following.Go(func() { m.follow(changed) })
	return m, nil
}

// committed follows each commit. The work of a changed manifest is another goroutine's: it may wait
// for the disk, and the commit must be answered.
func (m *maintenance) committed() {
	m.compactor.all.Store(false) // the store is no longer paused
	now, err := os.Stat(filepath.Join(m.dir, badger.ManifestFilename))
	if err != nil || sameManifest(m.seenManifest, now) {
		return
	}
	m.seenManifest = now
	select {
	case m.changed <- struct{}{}:
	default: // the goroutine has yet to look
	}
}

// follow copies the manifest after each change, and compacts where that is due.
func (m *maintenance) follow(changed <-chan struct{}) {
	for range changed {
		if err := m.copyManifest(); err != nil {
			m.logger.Warn("the manifest could not be copied", "error", err) // the next sync tries again
		}
		m.compactor.begin(false)
	}
}

// stop precedes the closing of the database, and waits for the goroutine that follows the manifest
// and for the compaction under way.
func (m *maintenance) stop() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	m.following.Wait()
	m.compactor.stop()
}

// sync fsyncs the logs and then writes the watermark, as observed before the fsync. It copies the
// manifest where that failed before.
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
	if err := m.manifest.renew(); err != nil {
		m.logger.Warn("the manifest could not be copied", "error", err)
	}
	return nil
}

// copyManifest copies the manifest if it has changed.
func (m *maintenance) copyManifest() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.manifest.renew()
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

// Each of Badger's compactors wakes up 20 times a second to look for work. So there are none
// (options.go), and a compactor of ours compacts when there are new tables.

// flattenRound begins the message that Badger's Flatten logs before each round, from the goroutine
// that called it.
const flattenRound = "Attempting to compact"

// A compactor compacts a database by Badger's Flatten, which goes on until all tables are in one
// level. For a memtable that was flushed meanwhile it would rewrite the whole database once more,
// and where that takes longer than a memtable takes to fill, without end. So the compactor is
// Badger's log, too, and ends Flatten before a round that isn't due (docs/adr/0047).
type compactor struct {
	badger.Logger
	db       *badger.DB
	running  atomic.Bool
	all      atomic.Bool // the compaction under way is of any number of tables
	stopping atomic.Bool
	wait     sync.WaitGroup
}

// begin begins a compaction where one is due and none is running. all: any number of tables in level
// zero is enough. An error is in the log of Badger; the next change of the manifest is the next try.
func (c *compactor) begin(all bool) {
	if !c.due(all) || !c.running.CompareAndSwap(false, true) {
		return
	}
	c.all.Store(all)
	c.wait.Go(func() {
		defer c.running.Store(false)
		_ = c.db.Flatten(1)
	})
}

// due reports whether level zero has enough tables; or whether it is empty and another level is too
// large, which only large databases have. Flatten compacts the highest level that has tables.
func (c *compactor) due(all bool) bool {
	levels := c.db.Levels()
	if levels[0].NumTables > 0 {
		return all || levels[0].Score > 1
	}
	return slices.ContainsFunc(levels, func(l badger.LevelInfo) bool { return l.Score > 1 })
}

// Infof implements badger.Logger. It ends the calling goroutine, running its deferred calls, before
// a round of Flatten that isn't due.
func (c *compactor) Infof(format string, args ...any) {
	if strings.HasPrefix(format, flattenRound) && (c.stopping.Load() || !c.due(c.all.Load())) {
		runtime.Goexit()
	}
	c.Logger.Infof(format, args...)
}

// stop waits for the compaction under way. begin must not be called any more.
func (c *compactor) stop() {
	c.stopping.Store(true)
	c.wait.Wait()
}
