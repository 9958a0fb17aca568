package folder

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

	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// MarkerText begins the marker file; the format version follows it.
const MarkerText = "sluice store, format "

// readMarker returns the marker's text. It is empty in a new folder, and where a power cut emptied
// the marker. A folder that isn't ours is rejected.
func readMarker(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, MarkerName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	isEmpty, foreign := err == nil && len(text) == 0, findForeign(entries)
	switch {
	case len(text) > 0, foreign == "", isEmpty && hasOwnDatabase(dir):
		return string(text), nil
	case isEmpty:
		return "", fmt.Errorf("%w: it holds %q and its file %s is empty; give an empty folder",
			ErrForeign, foreign, MarkerName)
	}
	return "", fmt.Errorf("%w: it holds %q and no file %s; give an empty folder", ErrForeign, foreign, MarkerName)
}

// findForeign returns the name of an entry that a first start, interrupted or on a full disk,
// doesn't create.
func findForeign(entries []fs.DirEntry) string {
	for _, e := range entries {
		switch e.Name() {
		case MarkerName, MarkerName + durable.TempSuffix, LockName, "lost+found":
		default:
			return e.Name()
		}
	}
	return ""
}

// hasOwnDatabase reports whether the database's folder exists and holds no other program's
// database. A database that a power cut left without a manifest counts as ours. A manifest begins
// with "Bdgr" and the external magic (Badger, manifest.go).
func hasOwnDatabase(dir string) bool {
	database := filepath.Join(dir, DatabaseName)
	if stat, err := os.Stat(database); err != nil || !stat.IsDir() {
		return false
	}
	file, err := os.Open(filepath.Join(database, "MANIFEST"))
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

// checkMarker rejects a folder that isn't ours, or has another format, before anything in it is
// touched.
func (f *Folder) checkMarker() error {
	text, err := readMarker(f.Dir)
	if err != nil {
		return fmt.Errorf("store: %s: %w", f.Dir, err)
	}
	if text == "" {
		return nil
	}
	f.marked = true
	number, ok := strings.CutPrefix(strings.TrimSpace(text), MarkerText)
	version, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return fmt.Errorf("store: %s: %w: its file %s is another program's; give an empty folder", f.Dir,
			ErrForeign, MarkerName)
	}
	if !format.Readable(uint32(version)) {
		return format.UnreadableVersion(f.Dir, uint32(version))
	}
	return nil
}

// WriteMarker writes the marker if it is missing. It precedes the database, so no power cut leaves
// a database without a marker.
func (f *Folder) WriteMarker() error {
	if f.marked {
		return nil
	}
	text := fmt.Appendf(nil, "%s%d\n", MarkerText, format.Version)
	if err := durable.WriteFile(filepath.Join(f.Dir, MarkerName), text, 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	f.marked = true
	return nil
}

// ReadReplicaName returns the name of the replica whose data the folder holds; empty: the folder
// names none. The folder may be missing.
func ReadReplicaName(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, ReplicaName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// WriteReplicaName records the name of the replica that counts in the folder from now on.
func (f *Folder) WriteReplicaName(name string) error {
	if err := durable.WriteFile(filepath.Join(f.Dir, ReplicaName), []byte(name+"\n"), 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return nil
}

// MaxDeaths is how often in a row the process may die between BeginRestore and EndRestore. The
// probe finds a database that kills the process which opens it; this count finds one whose restored
// values do, for instance by the memory that they take. A death during the probe isn't counted:
// nothing of the database has been used by then. Nor is an end that was requested. A later SIGKILL
// counts, because the OOM killer's can't be told from any other.
const MaxDeaths = 3

// BeginRestore counts a restore that hasn't ended. Its error is format.ErrDamaged after MaxDeaths
// deaths.
func (f *Folder) BeginRestore() error {
	path := filepath.Join(f.Dir, RestoreName)
	text, _ := os.ReadFile(path)
	before, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if before >= MaxDeaths {
		return format.Damaged("the process died %d times while it restored from it", before)
	}
	if err := durable.WriteFile(path, strconv.AppendInt(nil, int64(before+1), 10), 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return nil
}

// EndRestore clears the count: the restore has ended, be it by an error that the process survived.
func (f *Folder) EndRestore() error {
	err := os.Remove(filepath.Join(f.Dir, RestoreName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return nil
}
