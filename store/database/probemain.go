package database

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
	"github.com/sluice-metrics/sluice/store/wal"
)

// environmental errors say nothing about the database.
var environmental = []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM}

// probeMain is the probe. It returns the exit code.
func probeMain(dir string) int {
	fmt.Println(probeBegun)
	version, err := probeDatabase(dir)
	fmt.Printf("%s%d\n", probeFormat, version)
	if err == nil {
		fmt.Println(probePassed)
		return 0
	}
	result := probeFault
	for _, e := range environmental {
		if errors.Is(err, e) {
			result = probeUnable
		}
	}
	reason := strings.TrimPrefix(err.Error(), format.Damaged("").Error()) // the parent adds it again
	fmt.Println(result + strings.ReplaceAll(reason, "\n", " "))
	return 1
}

// probeDatabase opens a database as Open would, and reads all of it. It doesn't close the database:
// the process ends, and the parent removes the folder.
func probeDatabase(dir string) (version uint32, err error) {
	_, listed, _, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return 0, err
	}
	lost, err := wal.LostVersion(dir)
	if err != nil {
		return 0, err
	}
	db, err := badger.Open(localOptions(dir, slog.New(slog.NewTextHandler(os.Stderr, nil))).
		WithReadOnly(os.Getenv(readOnlyEnv) != "").
		WithChecksumVerificationMode(options.OnTableAndBlockRead))
	if err != nil {
		return 0, err
	}
	// Badger leaves out a table whose checksum is wrong, and goes on without it.
	opened := map[uint64]badger.TableInfo{}
	for _, t := range db.Tables() {
		opened[t.ID] = t
	}
	newest := uint64(0) // in a table that the last process listed; this opening made others of the logs
	for id := range listed {
		t, ok := opened[id]
		if !ok {
			return 0, fmt.Errorf("table %d is damaged", id)
		}
		newest = max(newest, t.MaxVersion)
	}
	if lost > newest {
		return 0, fmt.Errorf("a log that was synced up to version %d is missing, and the tables end at version %d", lost, newest)
	}
	if version, err = readVersion(db); err != nil {
		return version, err
	}
	from := (&Local{badger: db}).Read()
	defer from.Close()
	return version, from.Each(nil, func(_, _ []byte) error { return nil })
}
