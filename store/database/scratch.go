package database

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-metrics/sluice/store/wal"
)

// makeScratch makes a copy of the database that the probe may open and spoil. Tables are hard
// links: Badger never writes to one, and the probe runs without compactions, which would truncate
// tables before they remove them. All else is copied.
func makeScratch(database, scratch string) error {
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("store: cannot clear the probe's folder: %w", err)
	}
	entries, err := os.ReadDir(database)
	if err != nil {
		return fmt.Errorf("store: cannot read the database: %w", err)
	}
	if err := os.Mkdir(scratch, 0o750); err != nil {
		return fmt.Errorf("store: cannot create the probe's folder: %w", err)
	}
	for _, e := range entries {
		from, to := filepath.Join(database, e.Name()), filepath.Join(scratch, e.Name())
		if !e.Type().IsRegular() {
			continue
		}
		put := copySparse
		if filepath.Ext(e.Name()) == ".sst" {
			put = linkOrCopy
		}
		if err := put(from, to); err != nil {
			return fmt.Errorf("store: cannot fill the probe's folder: %w", err)
		}
	}
	return nil
}

// linkOrCopy copies where the file system has no links.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copySparse(from, to)
}

// copySparse copies a file without the zeros at its end, which are most of a log, and keeps its
// size.
func copySparse(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, wal.TrimZeros(content), 0o640); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(content)))
}
