package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// makeScratch makes a folder that a trial may open and spoil. Tables are linked: Badger never writes to one,
// and the trial runs without the compactions that would cut one to nothing before they remove it. Everything
// else is copied.
func makeScratch(database, scratch string) error {
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("store: cannot clear the trial's folder: %w", err)
	}
	entries, err := os.ReadDir(database)
	if err != nil {
		return fmt.Errorf("store: cannot read the database: %w", err)
	}
	if err := os.Mkdir(scratch, 0o750); err != nil {
		return fmt.Errorf("store: cannot make the trial's folder: %w", err)
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
			return fmt.Errorf("store: cannot fill the trial's folder: %w", err)
		}
	}
	return nil
}

// linkOrCopy copies where the file system knows no links.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copySparse(from, to)
}

// copySparse leaves the zeros at the end out, of which a log is full, and keeps the size.
func copySparse(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, bytes.TrimRight(content, "\x00"), 0o640); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(content)))
}
