package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/sluice-metrics/sluice/store/format"
)

const (
	// memTableBytes is of a database that is restored from: the logs of former versions hold as much.
	memTableBytes = 8 << 20
	memTables     = 2

	// In a process of its own Badger builds tables in buffers that it keeps, up to eight, each as large as the largest of
	// its tables ever needed: a power of two. 8 MiB hold a memtable of this size with what is wasted, so they take 64 MiB; those
	// of 8 MiB took 284. As many bytes as before make a compaction.
	apartMemTableBytes = 4 << 20
	apartTableBytes    = apartMemTableBytes - 1<<19
	apartLevelZero     = 24

	// A block of a table is filled up to this size. A value that is larger by itself is copied to a place twice the block's, and the
	// first one is wasted: with the 4 KiB that are usual, checkpoints (5 KiB) and names of pods' series (60 KiB) made tables outgrow
	// their buffers, of which eight then held 200 MB.
	apartBlockBytes = 256 << 10
)

// badgerOptions: no value log (values stay below the threshold), no compression and hence no block cache,
// one version a key, no conflict detection: only the flush writes. Every table spans all keys, so a compaction
// of new tables rewrites the whole of the level below: rarely, twelve tables at once, and into the last level
// without another in between, halves what goes to disk (750,000 series, 75,000 changes a second: 14 to 7 MB/s).
func badgerOptions(dir string, logger *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(badgerLog{logger}).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(memTables).
		WithNumCompactors(2).
		WithNumLevelZeroTables(12).
		WithNumLevelZeroTablesStall(30).
		WithBaseLevelSize(1 << 30).
		WithValueThreshold(batchBytes).
		WithValueLogFileSize(1 << 20).
		WithExternalMagic(format.ManifestMagic)
}

// apartOptions are those of a database that is only written to.
func apartOptions(dir string, logger *slog.Logger) badger.Options {
	return badgerOptions(dir, logger).
		WithMemTableSize(apartMemTableBytes).
		WithBaseTableSize(apartTableBytes).
		WithBlockSize(apartBlockBytes).
		WithNumLevelZeroTables(apartLevelZero).
		WithNumLevelZeroTablesStall(2*apartLevelZero + apartLevelZero/2)
}

// readOnlyOptions are those of a database that nothing may be written to. What Badger says while it refuses one is in its error.
func readOnlyOptions(dir string) badger.Options {
	return badgerOptions(dir, slog.New(slog.DiscardHandler)).WithReadOnly(true)
}

// openDatabase opens what was checked before, or makes a new one.
func openDatabase(options badger.Options) (*badger.DB, error) {
	db, err := badger.Open(options)
	if err != nil {
		return nil, fmt.Errorf("store: cannot open the database %s: %w", options.Dir, err)
	}
	if err := checkFormat(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkFormat writes the format version into a new database, or one of an older version that can be read, and reads it in any
// other.
func checkFormat(db *badger.DB) error {
	version, err := readFormat(db)
	if err != nil {
		return err
	}
	if !format.Readable(version) && version != 0 {
		return format.UnreadableVersion(db.Opts().Dir, version)
	}
	if version != format.Version {
		return db.Update(func(txn *badger.Txn) error {
			return txn.Set([]byte{format.PrefixVersion}, format.AppendVersion(nil))
		})
	}
	return nil
}

// readFormat is the format version in the database, 0 for one that is still empty.
func readFormat(db *badger.DB) (uint32, error) {
	version := uint32(0)
	err := db.View(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte{format.PrefixVersion})
		if errors.Is(err, badger.ErrKeyNotFound) {
			return errIfAny(txn)
		}
		if err != nil {
			return err
		}
		return item.Value(func(value []byte) (err error) {
			version, err = format.ParseVersion(value)
			return err
		})
	})
	return version, err
}

func errIfAny(txn *badger.Txn) error {
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	if it.Rewind(); it.Valid() {
		return format.Damaged("it has entries but no format version")
	}
	return nil
}

// badgerLog brings Badger's lines into ours. What Badger calls information is detail to us.
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
