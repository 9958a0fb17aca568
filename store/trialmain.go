package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/sluice-metrics/sluice/store/format"
)

// trialMain does a trial, and says what the process exits with.
func trialMain(dir string) int {
	fmt.Println(trialBegun)
	version, err := tryOpen(dir)
	fmt.Printf("%s%d\n", trialFormat, version)
	if err != nil {
		word := trialFault
		for _, circumstance := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM} {
			if errors.Is(err, circumstance) {
				word = trialUnable
			}
		}
		reason := strings.TrimPrefix(err.Error(), format.Damaged("").Error()) // the parent says that again
		fmt.Println(word + strings.ReplaceAll(reason, "\n", " "))
		return 1
	}
	fmt.Println(trialPassed)
	return 0
}

// tryOpen opens a scratch folder as Open would its database, and reads all that Open might. The database is
// not closed: the process ends and the folder goes.
func tryOpen(dir string) (version uint32, err error) {
	_, listed, _, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return 0, err
	}
	missing, err := missingLogs(dir)
	if err != nil {
		return 0, err
	}
	db, err := badger.Open(badgerOptions(dir, slog.New(slog.NewTextHandler(os.Stderr, nil))).
		WithReadOnly(os.Getenv(readOnlyEnv) != "").
		WithNumCompactors(0).
		WithNumLevelZeroTablesStall(1 << 20).
		WithChecksumVerificationMode(options.OnTableAndBlockRead))
	if err != nil {
		return 0, err
	}
	// A table whose checksum is wrong is left out, and Badger goes on without it.
	opened := map[uint64]badger.TableInfo{}
	for _, t := range db.Tables() {
		opened[t.ID] = t
	}
	newest := uint64(0) // in a table that the last process listed, not in one that this opening made of a log
	for id := range listed {
		t, ok := opened[id]
		if !ok {
			return 0, fmt.Errorf("table %d is damaged", id)
		}
		newest = max(newest, t.MaxVersion)
	}
	if missing > newest {
		return 0, fmt.Errorf("a log that was synced up to version %d is missing, and the tables go up to %d", missing, newest)
	}
	if version, err = readFormat(db); err != nil {
		return version, err
	}
	return version, readAll(db)
}

func readAll(db *badger.DB) error {
	return db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := it.Item().Value(func([]byte) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}
