package store

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
	"github.com/sluice-metrics/sluice/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// Badger reads a manifest that was cut short as far as it goes, and deletes every table that it does not
// find in there. So a copy is kept beside it, taken whenever the manifest has changed and after it was
// synced: a manifest that is shorter than its copy has lost something.
const copyName = "MANIFEST.copy"

// checkManifest says whether Badger would find what it left. It changes nothing. fresh: there is no database
// yet.
func checkManifest(dir string) (fresh bool, err error) {
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

// compareManifest holds a manifest against its copy. Tables that are not listed are no fault in themselves:
// a process that is killed leaves some that it had not listed yet, or no longer.
func compareManifest(dir string, manifest []byte, complete bool, unlisted int) error {
	saved, err := os.ReadFile(filepath.Join(dir, copyName))
	if err != nil || len(saved) == 0 {
		if !complete || unlisted > 0 {
			return format.Damaged("%s is cut short or misses %d tables, and there is no copy of it", badger.ManifestFilename, unlisted)
		}
		return nil
	}
	switch {
	case bytes.HasPrefix(manifest, saved):
		return nil // grown, or the same; what an ending process did not write whole is past the end
	case bytes.HasPrefix(saved, manifest):
		return format.Damaged("%s is cut short: %d bytes, its copy has %d", badger.ManifestFilename, len(manifest), len(saved))
	case !complete:
		return format.Damaged("%s is cut short, and its copy is of an older one", badger.ManifestFilename)
	}
	return nil // rewritten since the copy was taken
}

// readManifest returns the valid part of a manifest, the tables that it lists, and whether all of it was valid.
func readManifest(path string) (valid []byte, listed map[uint64]badger.TableManifest, complete bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, false, err
	}
	defer file.Close()
	options := badgerOptions(filepath.Dir(path), slog.New(slog.DiscardHandler))
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

// listDatabase finds the tables in a database's folder, and whether there are logs.
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

// A manifestCopy keeps the copy up to date.
type manifestCopy struct {
	dir  string
	last os.FileInfo
}

// renew copies the manifest if it has changed. The manifest is synced first: a power failure must not leave
// the copy with more than the original.
func (c *manifestCopy) renew() error {
	path := filepath.Join(c.dir, badger.ManifestFilename)
	now, err := os.Stat(path)
	if err != nil {
		return err
	}
	if c.last != nil && os.SameFile(c.last, now) && c.last.Size() == now.Size() {
		return nil
	}
	if err := durable.Sync(path); err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(c.dir, copyName), content[:min(int64(len(content)), now.Size())], 0o640); err != nil {
		return err
	}
	c.last = now
	return nil
}

// removeEmptyLogs removes logs of no bytes. Badger leaves one when it is killed between truncating and
// removing it, or between making and sizing it, and then refuses to open.
func removeEmptyLogs(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		logs, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, log := range logs {
			entry, err := os.Stat(log)
			if err != nil || entry.Size() > 0 {
				continue
			}
			if err := os.Remove(log); err != nil {
				return fmt.Errorf("store: cannot remove an empty log: %w", err)
			}
		}
	}
	return nil
}
