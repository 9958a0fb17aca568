package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/internal/durable"
)

// The names in a data folder. The database has a folder of its own, so it can be renamed even where
// the data folder is a mount point.
const (
	MarkerName   = "SLUICE"
	LockName     = "LOCK"
	DatabaseName = "badger"
	ProbeName    = "trial"   // scratch copy of the database that the probe opens
	RestoreName  = "OPENING" // number of restores in a row that the process died in
	ReplicaName  = "REPLICA" // name of the replica that counted the data; missing: it had no replicas
)

// Errors of a data folder. Nothing in it was touched.
var (
	// ErrForeign: the folder belongs to something else.
	ErrForeign = errors.New("not a data folder of sluice")
	// ErrInUse: another process holds the folder's lock.
	ErrInUse = errors.New("in use")
)

// A Folder is a data folder that is ours and locked.
type Folder struct {
	Dir    string // absolute
	lock   *os.File
	marked bool // the marker file exists; false on a full disk, then WriteMarker comes before the database
}

// Database is the path of the database's folder.
func (f *Folder) Database() string { return filepath.Join(f.Dir, DatabaseName) }

// LockFile is the open file that holds the lock. A child process that inherits it holds the lock
// too.
func (f *Folder) LockFile() *os.File { return f.lock }

// Open locks a data folder, and creates one where there is none or an empty one.
func Open(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store: data folder: %w", err)
	}
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("store: cannot create the data folder: %w", err)
	}
	f := &Folder{Dir: dir}
	if err := f.checkMarker(); err != nil {
		return nil, err
	}
	if err := f.WriteMarker(); err != nil && !durable.IsFull(err) {
		return nil, err
	}
	if f.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	return f, nil
}

// Release gives the lock back.
func (f *Folder) Release() error { return f.lock.Close() }

// A Suffix is part of the name of a database that was set aside, and says why it was.
type Suffix string

const (
	// Damaged: the database can't be trusted.
	Damaged Suffix = "damaged"
	// Unrestored: the database couldn't be read on a full disk; nobody knows whether it is damaged.
	Unrestored Suffix = "unrestored"
)

// WasSetAside returns the path of a database that was set aside; empty: none was.
func (f *Folder) WasSetAside() string {
	for _, suffix := range []Suffix{Damaged, Unrestored} {
		if all, _ := filepath.Glob(f.Database() + "." + string(suffix) + "-*"); len(all) > 0 {
			return all[len(all)-1]
		}
	}
	return ""
}

// SetAside renames the database, so that a new one can begin, and returns the new path.
func (f *Folder) SetAside(suffix Suffix, now time.Time) (string, error) {
	base := f.Database() + "." + string(suffix) + "-" + now.UTC().Format("20060102T150405Z")
	name := base
	for i := 2; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = base + "-" + strconv.Itoa(i)
	}
	if err := os.Rename(f.Database(), name); err != nil {
		return "", fmt.Errorf("store: cannot set the database aside: %w", err)
	}
	return name, durable.Sync(f.Dir)
}
