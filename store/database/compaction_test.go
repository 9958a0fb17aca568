package database

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// TestCompaction: when level zero has enough tables, they are moved into the last level, and
// commits go on meanwhile.
func TestCompaction(t *testing.T) {
	t.Parallel()
	db := openSmall(t)
	fillTables(t, db, 4*processLevelZero)
	eventually(t, "all but a few tables in the last level", func() bool {
		mustWrite(t, db, "later", nil)
		levels := db.badger.Levels()
		return levels[0].NumTables <= processLevelZero && levels[len(levels)-1].NumTables > 0
	})
	for _, level := range db.badger.Levels()[1:6] {
		if level.NumTables > 0 {
			t.Errorf("%d tables in level %d", level.NumTables, level.Level)
		}
	}
}

// TestCompactionEndsWithItsTables: a table that was made during a compaction waits for the next
// one, so it doesn't cause a rewrite of the whole database for itself.
func TestCompactionEndsWithItsTables(t *testing.T) {
	t.Parallel()
	log := newCompactionLog()
	db := openSmallWith(t, func(options badger.Options) badger.Options { return options.WithLogger(log) })
	fillTables(t, db, processLevelZero+2) // the last one may not be in its level yet
	mustWrite(t, db, "later", nil)
	<-log.compacted
	fillTables(t, db, 2) // in level zero, before Flatten looks
	close(log.proceed)
	eventually(t, "the end of the compaction", func() bool { return !db.maintenance.compactor.running.Load() })
	if n := db.badger.Levels()[0].NumTables; n == 0 || n > processLevelZero || len(log.compacted) > 0 {
		t.Errorf("%d tables in level zero after %d more rounds", n, len(log.compacted))
	}
}

// A compactionLog stops a compaction after each round, until proceed is closed.
type compactionLog struct {
	badger.Logger
	compacted, proceed chan int
}

func newCompactionLog() *compactionLog {
	return &compactionLog{badgerLog{quiet}, make(chan int, 1000), make(chan int)}
}

func (l *compactionLog) Infof(format string, _ ...any) {
	if strings.Contains(format, "compactor(s) succeeded") {
		l.compacted <- 0
		<-l.proceed
	}
}

// TestLargeDatabase: a level between the first and the last that became too large is compacted,
// too.
func TestLargeDatabase(t *testing.T) {
	t.Parallel()
	db := openSmallWith(t, func(options badger.Options) badger.Options {
		return options.WithBaseLevelSize(4 * smallTableBytes).WithNumLevelZeroTables(2)
	})
	key := uint64(0)
	eventually(t, "tables between the first level and the last", func() bool {
		fillTablesFrom(t, db, 2, key)
		key += 32
		return slices.ContainsFunc(db.badger.Levels()[1:6], func(l badger.LevelInfo) bool { return l.NumTables > 0 })
	})
	for range 12 { // until the level is too large
		fillTablesFrom(t, db, 2, key)
		key += 32
	}
	eventually(t, "no level above its size", func() bool {
		mustWrite(t, db, "later", nil)
		for _, level := range db.badger.Levels() {
			if level.Score > 1 {
				return false
			}
		}
		return !db.maintenance.compactor.running.Load()
	})
}

// TestManyTables: writes never wait for a compaction, however many tables level zero has. When such
// a database is opened again, it is compacted.
func TestManyTables(t *testing.T) {
	t.Parallel()
	db := openSmall(t)
	db.maintenance.stop() // no compaction
	fillTables(t, db, 4*processLevelZero)
	dir := db.badger.Opts().Dir
	must(t, db.Close())
	again, err := openLocal(processOptions(dir, quiet), quiet)
	must(t, err)
	eventually(t, "a compaction", func() bool {
		mustWrite(t, again, "later", nil)
		return again.badger.Levels()[0].NumTables < processLevelZero
	})
	must(t, again.Close())
}

// TestCloseBesideACompaction: closing waits for the compaction under way, and loses nothing.
func TestCloseBesideACompaction(t *testing.T) {
	t.Parallel()
	log := newCompactionLog()
	db := openSmallWith(t, func(options badger.Options) badger.Options { return options.WithLogger(log) })
	fillTables(t, db, processLevelZero+2) // the last one may not be in its level yet
	mustWrite(t, db, "later", []byte("value"))
	<-log.compacted
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("closed beside a compaction: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(log.proceed)
	must(t, <-closed)
	again, err := openLocal(processOptions(db.badger.Opts().Dir, quiet), quiet)
	must(t, err)
	defer again.Close()
	from := again.Read()
	defer from.Close()
	if found, err := from.Get([]byte("later"), func(value []byte) error { return nil }); !found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestCompact: a compaction that is asked for needs no number of tables in level zero, but another
// level that has some.
func TestCompact(t *testing.T) {
	t.Parallel()
	db := openSmall(t)
	fillTables(t, db, processLevelZero+2)
	eventually(t, "a compaction", func() bool {
		mustWrite(t, db, "later", nil)
		return db.badger.Levels()[6].NumTables > 0
	})
	fillTables(t, db, 3)
	eventually(t, "all tables in the last level", func() bool {
		must(t, db.Compact())
		return db.badger.Levels()[0].NumTables == 0
	})
}
