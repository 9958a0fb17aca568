package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// logBytes is how far Badger writes into a memtable's log: it begins a new one with the transaction after the one
// that passes the memtable's size.
const logBytes = memTableBytes + 2*batchBytes

// errNoRoom: writing now could meet a full disk.
var errNoRoom = errors.New("the disk is too full")

// A reserve gives Badger's logs their room on the disk before they are written to. They are mapped and sparse, and
// a page that cannot be had is a SIGBUS. Badger makes the next log itself, in the middle of a write; but it takes
// an empty file that is there already, and such a file may have room beyond its end. Its owner is the flush.
type reserve struct {
	dir    string
	next   int  // the log made ahead of Badger; 0: none yet
	unable bool // the file system cannot reserve room
}

// renew sees to it that the log in use and the one after it have their room. Between two calls Badger may begin
// one log at most, so it must be called before every batch.
func (r *reserve) renew() error {
	if r.unable {
		return nil
	}
	if r.next != 0 {
		if ahead, err := os.Stat(r.path(r.next)); err == nil && ahead.Size() == 0 {
			return nil
		}
	}
	newest := 0
	for _, log := range listLogs(r.dir) {
		if log.size > 0 {
			newest = log.number
		}
	}
	for _, log := range []int{newest, newest + 1} {
		err := allocate(r.path(log), logBytes)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			r.unable = true
			return r.drop(newest + 1)
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return errors.Join(fmt.Errorf("%w: %w", errNoRoom, err), r.drop(newest+1))
		case err != nil:
			return fmt.Errorf("store: cannot reserve room for a log: %w", err)
		}
	}
	r.next = newest + 1
	return nil
}

// end removes what Badger has not used.
func (r *reserve) end() error {
	if r.next == 0 {
		return nil
	}
	return r.drop(r.next)
}

func (r *reserve) drop(log int) error {
	r.next = 0
	ahead, err := os.Stat(r.path(log))
	if err == nil && ahead.Size() == 0 {
		err = os.Remove(r.path(log))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: cannot remove an unused log: %w", err)
	}
	return nil
}

func (r *reserve) path(log int) string { return filepath.Join(r.dir, fmt.Sprintf("%05d.mem", log)) }

// allocate makes a file, if there is none, and gives it room that its size does not show.
func allocate(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	for {
		err = fallocate(file, bytes)
		if !errors.Is(err, syscall.EINTR) {
			return errors.Join(err, file.Close())
		}
	}
}
