package database

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

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
	stopping atomic.Bool
	wait     sync.WaitGroup
}

// compactIfDue begins a compaction where one is due and none is running. An error is in the log of
// Badger; the next change of the manifest is the next try.
func (c *compactor) compactIfDue() {
	if c.running.Load() || !c.due() {
		return
	}
	c.running.Store(true)
	c.wait.Go(func() {
		defer c.running.Store(false)
		_ = c.db.Flatten(1)
	})
}

// due reports whether level zero has enough tables; or whether it is empty and another level is too
// large, which only large databases have. Flatten compacts the highest level that has tables.
func (c *compactor) due() bool {
	levels := c.db.Levels()
	if levels[0].NumTables > 0 {
		return levels[0].Score > 1
	}
	return slices.ContainsFunc(levels, func(l badger.LevelInfo) bool { return l.Score > 1 })
}

// Infof implements badger.Logger. It ends the calling goroutine, running its deferred calls, before
// a round of Flatten that isn't due.
func (c *compactor) Infof(format string, args ...any) {
	if strings.HasPrefix(format, flattenRound) && (c.stopping.Load() || !c.due()) {
		runtime.Goexit()
	}
	c.Logger.Infof(format, args...)
}

// stop waits for the compaction under way. compactIfDue must not be called any more.
func (c *compactor) stop() {
	c.stopping.Store(true)
	c.wait.Wait()
}
