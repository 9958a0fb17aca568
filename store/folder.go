package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The names in a data directory. The database has a folder of its own, so that it can be renamed where the
// data directory itself is a mount point.
const (
	markerName   = "SLUICE"
	lockName     = "LOCK"
	databaseName = "badger"
	trialName    = "trial"
	openingName  = "OPENING"

	markerText = "sluice store, format "
)

// Errors of a data directory. Nothing in it was touched.
var (
	// ErrForeign: something else lives there.
	ErrForeign = errors.New("not a data directory of sluice")
	// ErrInUse: another process holds it.
	ErrInUse = errors.New("in use")
)

// A folder is a data directory that is ours and locked.
type folder struct {
	dir  string
	lock *os.File
}

func (f *folder) database() string { return filepath.Join(f.dir, databaseName) }

// openFolder takes a data directory, and makes it where there is none or an empty one.
func openFolder(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store: data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("store: cannot make the data directory: %w", err)
	}
	if err := checkMarker(dir); err != nil {
		return nil, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	return &folder{dir: dir, lock: lock}, nil
}

func (f *folder) release() error { return f.lock.Close() }

// checkMarker refuses a directory that is not ours, or of another format, before anything in it is touched.
func checkMarker(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("store: cannot read the data directory: %w", err)
	}
	stranger := ""
	for _, e := range entries {
		if e.Name() != markerName && e.Name() != "lost+found" {
			stranger = e.Name()
		}
	}
	path := filepath.Join(dir, markerName)
	text, err := os.ReadFile(path)
	switch {
	case err == nil && (len(text) > 0 || stranger != ""):
		return parseMarker(dir, string(text))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("store: cannot read the data directory's marker: %w", err)
	case stranger != "":
		return fmt.Errorf("store: %s is %w: it holds %q and no file %s; give an empty directory", dir, ErrForeign, stranger, markerName)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s%d\n", markerText, formatVersion), 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data directory: %w", err)
	}
	return nil
}

func parseMarker(dir, text string) error {
	number, ok := strings.CutPrefix(strings.TrimSpace(text), markerText)
	version, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return fmt.Errorf("store: %s is %w: its file %s says something else", dir, ErrForeign, markerName)
	}
	if !readable(uint32(version)) {
		return formatError(dir, uint32(version))
	}
	return nil
}

// lockPatience is how long the database's process may outlive a store that was killed.
const lockPatience = 2 * time.Second

func flock(file *os.File) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Since(began) > lockPatience {
			return err
		}
	}
}

// lockFolder holds the directory until the file is closed or the process ends, and with it that of the database. The number in it is for
// the message alone.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("store: cannot lock the data directory: %w", err)
	}
	if err := flock(file); err != nil {
		holder, _ := os.ReadFile(file.Name())
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("store: data directory %s is %w by process %s; every sluice needs one of its own",
				dir, ErrInUse, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("store: cannot lock the data directory %s: %w", dir, err)
	}
	if err := writeHolder(file); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("store: cannot write to the data directory: %w", err)
	}
	return file, nil
}

// writeHolder writes which process has the lock, over what stood there: on a full disk the file keeps its block, and without one the
// number is missing.
func writeHolder(file *os.File) error {
	text := fmt.Appendf(nil, "%d\n", os.Getpid())
	_, err := file.WriteAt(text, 0)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return errors.Join(err, file.Truncate(int64(len(text))))
}

// What a database is that is set aside: its name says so.
const (
	untrusted  = "damaged"
	unrestored = "unrestored" // nobody knows more than that it could not be read on a full disk
)

// setAside renames the database, so that a new one can begin, and returns the new name.
func (f *folder) setAside(what string, now time.Time) (string, error) {
	base := f.database() + "." + what + "-" + now.UTC().Format("20060102T150405Z")
	name := base
	for i := 2; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = base + "-" + strconv.Itoa(i)
	}
	if err := os.Rename(f.database(), name); err != nil {
		return "", fmt.Errorf("store: cannot set the database aside: %w", err)
	}
	return name, syncFile(f.dir)
}

// sync brings all that was committed to the platter. Badger's own Sync holds a lock that stops its writer,
// and leaves out the logs of memtables that wait to become tables; fsync on the same file does neither.
// A log that is gone meanwhile has become a table, which was synced.
func (f *folder) sync() error {
	logs, err := filepath.Glob(filepath.Join(f.database(), "*.mem"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		if err := syncFile(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store: cannot sync: %w", err)
		}
	}
	if err := syncFile(f.database()); err != nil {
		return fmt.Errorf("store: cannot sync: %w", err)
	}
	return nil
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
