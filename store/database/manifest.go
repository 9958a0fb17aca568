package database

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// Badger reads a manifest that was cut short as far as it goes, and deletes every table that isn't
// listed there. So a copy lies beside it, taken after each change and fsync of the manifest. A
// manifest that is shorter than its copy has lost entries.
const copyName = "MANIFEST.copy"

// CheckManifest reports whether the manifest lists what Badger left, and all listed tables exist.
// It changes nothing. fresh: there is no database. Its error is format.ErrDamaged, or one of the
// file system.
func CheckManifest(dir string) (fresh bool, err error) {
	tables, others, err := listDatabase(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("store: cannot read the database: %w", err)
	}
	manifest, listed, complete, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		if len(tables) > 0 || others {
			return false, format.Damaged("it has files but no %s", badger.ManifestFilename)
		}
		return true, nil
	}
	if err != nil {
		return false, format.Damaged("%s: %v", badger.ManifestFilename, err)
	}
	for id := range listed {
		if !tables[id] {
			return false, format.Damaged("%s lists table %s, which is missing", badger.ManifestFilename, table.IDToFilename(id))
		}
	}
	return false, compareManifest(dir, manifest, complete, unlisted(tables, listed))
}

// compareManifest compares a manifest with its copy. Unlisted tables alone are no damage: a killed
// process leaves tables that it hasn't listed yet, or lists no longer.
func compareManifest(dir string, manifest []byte, complete bool, unlisted int) error {
	saved, err := os.ReadFile(filepath.Join(dir, copyName))
	if err != nil || len(saved) == 0 {
		if !complete || unlisted > 0 {
			return format.Damaged("%s is cut short or lacks %d tables, and there is no copy of it",
				badger.ManifestFilename, unlisted)
		}
		return nil
	}
	switch {
	case bytes.HasPrefix(manifest, saved):
		return nil // the same, or grown; an entry that a killed process did not finish is past the end
	case bytes.HasPrefix(saved, manifest):
		return format.Damaged("%s is cut short: %d bytes, its copy has %d", badger.ManifestFilename,
			len(manifest), len(saved))
	case !complete:
		return format.Damaged("%s is cut short, and its copy is of an older one", badger.ManifestFilename)
	}
	return nil // Badger rewrote it after the copy was taken
}

// readManifest returns the valid part of a manifest, the tables that it lists, and whether all of
// it is valid.
func readManifest(path string) (valid []byte, listed map[uint64]badger.TableManifest, complete bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, false, err
	}
	defer file.Close()
	options := localOptions(filepath.Dir(path), slog.New(slog.DiscardHandler))
	manifest, end, err := badger.ReplayManifestFile(file, format.ManifestMagic, options)
	if err != nil {
		return nil, nil, false, err
	}
	all, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, false, err
	}
	return all[:end], manifest.Tables, int64(len(all)) == end, nil
}

// listDatabase finds the tables in a database's folder, and says whether there are logs.
func listDatabase(dir string) (tables map[uint64]bool, logs bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false, err
	}
	tables = map[uint64]bool{}
	for _, e := range entries {
		if id, ok := table.ParseFileID(e.Name()); ok {
			tables[id] = true
		}
		switch filepath.Ext(e.Name()) {
		case ".mem", ".vlog":
			logs = true
		}
	}
	return tables, logs, nil
}

func unlisted(tables map[uint64]bool, listed map[uint64]badger.TableManifest) int {
	n := 0
	for id := range tables {
		if _, ok := listed[id]; !ok {
			n++
		}
	}
	return n
}

// sameManifest reports whether a manifest is as it was before. It is only appended to, or replaced.
// before may be nil.
func sameManifest(before, now os.FileInfo) bool {
	return before != nil && os.SameFile(before, now) && before.Size() == now.Size()
}

// A manifestCopy keeps the manifest's copy up to date.
type manifestCopy struct {
	dir  string
	last os.FileInfo
}

// renew copies the manifest if it has changed. The manifest is fsynced first: a power cut must not
// leave the copy with more than the original.
func (c *manifestCopy) renew() error {
	path := filepath.Join(c.dir, badger.ManifestFilename)
	now, err := os.Stat(path)
	if err != nil {
		return err
	}
	if sameManifest(c.last, now) {
		return nil
	}
	if err := durable.Sync(path); err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(c.dir, copyName), content[:min(int64(len(content)), now.Size())],
		0o640); err != nil {
		return err
	}
	c.last = now
	return nil
}
