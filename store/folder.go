package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/durable"
)

// The names in a data directory. The database has a folder of its own, so that it can be renamed where the
// data directory itself is a mount point.
const (
	markerName   = "SLUICE"
	lockName     = "LOCK"
	databaseName = "badger"
	trialName    = "trial"
	openingName  = "OPENING"
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
	dir    string
	lock   *os.File
	marked bool // the marker is there; else the disk was full, and it is written before the database is
}

func (f *folder) database() string { return filepath.Join(f.dir, databaseName) }

// openFolder takes a data directory, and makes it where there is none or an empty one.
func openFolder(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store: data directory: %w", err)
	}
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("store: cannot make the data directory: %w", err)
	}
	f := &folder{dir: dir}
	if err := f.checkMarker(); err != nil {
		return nil, err
	}
	if err := f.mark(); err != nil && !durable.IsFull(err) {
		return nil, err
	}
	if f.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *folder) release() error { return f.lock.Close() }

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
	return name, durable.Sync(f.dir)
}
