package database

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/sluice-metrics/sluice/store/format"
)

// MaxTransactionBytes bounds the keys and values of a transaction. Badger's own bound is 15 % of a
// memtable: 629,145 bytes of the smaller one.
const MaxTransactionBytes = 600 << 10

const (
	// memTableBytes is for a database that is restored from: former versions left logs of that
	// size.
	memTableBytes = 8 << 20
	memTables     = 2

	// Badger builds tables in buffers that it keeps: up to eight, each a power of two and as large
	// as the largest table ever needed. With memtables of 4 MiB, waste included, a buffer of 8 MiB
	// suffices, so all buffers take 64 MiB; with memtables of 8 MiB they took 284. Twice as many
	// tables make a compaction, so it is of as many bytes as before.
	processMemTableBytes = 4 << 20
	processTableBytes    = processMemTableBytes - 1<<19
	processLevelZero     = 24

	// processBlockBytes is the size up to which a table's block is filled. Badger copies a larger
	// value to a place of twice the block's size and wastes the first. With the default of 4 KiB,
	// checkpoints (5 KiB) and names of pods' series (60 KiB) made tables outgrow their buffers, and
	// eight buffers then held 200 MB.
	processBlockBytes = 256 << 10
)

// localOptions are those of a database that is restored from. There is no value log (values stay
// below the threshold), no compression and hence no block cache, one version of each key, and no
// conflict detection, because only the flush writes. Every table spans all keys, so a compaction of
// new tables rewrites the whole level below. Compacting rarely, twelve tables at once and straight
// into the last level, halves the bytes written (750,000 series, 75,000 changes a second: 14 to 7
// MB/s). maintenance.go compacts; Badger itself never does, and never makes a write wait for it,
// which would be the write that brings the next compaction about.
func localOptions(dir string, logger *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(badgerLog{logger}).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(memTables).
		WithNumCompactors(0).
		WithNumLevelZeroTables(12).
		WithNumLevelZeroTablesStall(math.MaxInt).
		WithBaseLevelSize(1 << 30).
		WithValueThreshold(MaxTransactionBytes).
		WithValueLogFileSize(1 << 20).
		WithExternalMagic(format.ManifestMagic)
}

// processOptions are those of a database in the storage process, which is only written to.
func processOptions(dir string, logger *slog.Logger) badger.Options {
	return localOptions(dir, logger).
		WithMemTableSize(processMemTableBytes).
		WithBaseTableSize(processTableBytes).
		WithBlockSize(processBlockBytes).
		WithNumLevelZeroTables(processLevelZero)
}

// readOnlyOptions are those of a database on a full disk. Badger's log is discarded: its error says
// the same.
func readOnlyOptions(dir string) badger.Options {
	return localOptions(dir, slog.New(slog.DiscardHandler)).WithReadOnly(true)
}

// badgerLog sends Badger's log to ours. Badger's information is debug output here.
type badgerLog struct{ logger *slog.Logger }

func (l badgerLog) log(level slog.Level, format string, args []any) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.Log(context.Background(), level, "badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l badgerLog) Errorf(format string, args ...any)   { l.log(slog.LevelError, format, args) }
func (l badgerLog) Warningf(format string, args ...any) { l.log(slog.LevelWarn, format, args) }
func (l badgerLog) Infof(format string, args ...any)    { l.log(slog.LevelDebug, format, args) }
func (l badgerLog) Debugf(string, ...any)               {}
