package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

const markerText = "sluice store, format "

// readMarker returns the marker's text. A directory that is not ours is refused. The text is empty in a new
// directory, and where a power cut left nothing of the marker.
func readMarker(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, markerName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	isEmpty, stranger := err == nil && len(text) == 0, findStranger(entries)
	switch {
	case len(text) > 0, stranger == "", isEmpty && hasOwnDatabase(dir):
		return string(text), nil
	case isEmpty:
		return "", fmt.Errorf("%w: it holds %q and its file %s is empty; give an empty folder", ErrForeign, stranger, markerName)
	}
	return "", fmt.Errorf("%w: it holds %q and no file %s; give an empty folder", ErrForeign, stranger, markerName)
}

// findStranger returns the name of an entry that a first start, interrupted or on a full disk, did not make.
func findStranger(entries []fs.DirEntry) string {
	for _, e := range entries {
		switch e.Name() {
		case markerName, markerName + durable.TempSuffix, lockName, "lost+found":
		default:
			return e.Name()
		}
	}
	return ""
}

// hasOwnDatabase reports whether the database's folder is there and holds nobody else's database. One that a power
// cut left without a manifest counts as ours. A manifest begins with "Bdgr" and the external magic (Badger,
// manifest.go).
func hasOwnDatabase(dir string) bool {
	database := filepath.Join(dir, databaseName)
	if stat, err := os.Stat(database); err != nil || !stat.IsDir() {
		return false
	}
	file, err := os.Open(filepath.Join(database, badger.ManifestFilename))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	var head [6]byte
	n, err := io.ReadFull(file, head[:])
	if n == 0 {
		return errors.Is(err, io.EOF)
	}
	return err == nil && string(head[:4]) == "Bdgr" && binary.BigEndian.Uint16(head[4:]) == format.ManifestMagic
}

// checkMarker refuses a directory that is not ours, or has another format, before anything in it is touched.
func (f *folder) checkMarker() error {
	text, err := readMarker(f.dir)
	if err != nil {
		return fmt.Errorf("store: %s: %w", f.dir, err)
	}
	if text == "" {
		return nil
	}
	f.marked = true
	number, ok := strings.CutPrefix(strings.TrimSpace(text), markerText)
	version, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return fmt.Errorf("store: %s: %w: its file %s says something else", f.dir, ErrForeign, markerName)
	}
	if !format.Readable(uint32(version)) {
		return format.UnreadableVersion(f.dir, uint32(version))
	}
	return nil
}

// mark writes the marker if it is missing. It precedes the database, so that no power cut leaves a database
// without a marker.
func (f *folder) mark() error {
	if f.marked {
		return nil
	}
	text := fmt.Appendf(nil, "%s%d\n", markerText, format.Version)
	if err := durable.WriteFile(filepath.Join(f.dir, markerName), text, 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data directory: %w", err)
	}
	f.marked = true
	return nil
}
