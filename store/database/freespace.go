package database

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/wal"
)

// LeastFreeBytes is what a flush and Badger's memtables may write between two checks of the free
// space. As much must always be free, because a full disk under a mapped file is a SIGBUS.
const LeastFreeBytes = 8 * memTableBytes

// FreeBytes is the space on a data folder's disk that Badger doesn't claim already: free space as
// the file system counts it, less the parts of the logs that have no disk space yet (they are
// sparse and mapped), less the size of all tables, because a compaction may write as much before it
// frees any.
func FreeBytes(dataFolder string) (uint64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dataFolder, &disk); err != nil {
		return 0, fmt.Errorf("store: cannot measure the disk's free space: %w", err)
	}
	free := disk.Bavail * uint64(disk.Bsize)
	claimed := claimedBytes(filepath.Join(dataFolder, folder.DatabaseName))
	return free - min(free, claimed), nil
}

// claimedBytes is what a database may still write without being given anything new.
func claimedBytes(dir string) uint64 {
	var sum int64
	entries := readNames(dir) // empty where there is no database
	for _, e := range entries {
		kind := filepath.Ext(e.Name())
		if kind != ".sst" && kind != ".mem" && kind != ".vlog" {
			continue
		}
		file, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		if kind == ".sst" {
			sum += file.Size()
		} else if stat, ok := file.Sys().(*syscall.Stat_t); ok {
			sum += max(0, min(stat.Size, logBytes)-stat.Blocks*512)
		}
	}
	return uint64(sum)
}

// readNames reads a folder without updating its access time: that may wait for a stalled disk.
func readNames(dir string) []fs.DirEntry {
	file, err := os.OpenFile(dir, os.O_RDONLY|noAccessTime, 0)
	if errors.Is(err, syscall.EPERM) { // another user's folder
		file, err = os.Open(dir)
	}
	if err != nil {
		return nil
	}
	defer file.Close()
	entries, _ := file.ReadDir(-1)
	return entries
}

// logBytes is how far Badger writes into a memtable's log: it begins a new log with the transaction
// after the one that exceeds the memtable's size.
const logBytes = memTableBytes + 2*MaxTransactionBytes

// A preallocator reserves disk space for Badger's logs before they are written to. Logs are mapped
// and sparse, and a page without disk space is a SIGBUS. Badger creates the next log itself, in the
// middle of a write. But it takes an empty file that exists already, and such a file may have space
// beyond its end. The goroutine that writes to the database owns it.
type preallocator struct {
	dir         string
	next        int  // number of the log created ahead of Badger; 0: none yet
	unsupported bool // the file system can't reserve space
}

// preallocate reserves space for the log in use and the one after it. Badger begins one log at most
// in a transaction, so it must be called before each. Its error is ErrDiskFull, or one of the file
// system.
func (p *preallocator) preallocate() error {
	if p.unsupported {
		return nil
	}
	if p.next != 0 {
		if ahead, err := os.Stat(p.path(p.next)); err == nil && ahead.Size() == 0 {
			return nil
		}
	}
	newest := 0
	for _, log := range wal.List(p.dir) {
		if log.Size > 0 {
			newest = log.Number
		}
	}
	for _, log := range []int{newest, newest + 1} {
		err := allocate(p.path(log), logBytes)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			p.unsupported = true
			return p.remove(newest + 1)
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return errors.Join(fmt.Errorf("%w: %w", ErrDiskFull, err), p.remove(newest+1))
		case err != nil:
			return fmt.Errorf("store: cannot reserve space for a log: %w", err)
		}
	}
	p.next = newest + 1
	return nil
}

// end removes the log that Badger hasn't used.
func (p *preallocator) end() error {
	if p.next == 0 {
		return nil
	}
	return p.remove(p.next)
}

func (p *preallocator) remove(log int) error {
	p.next = 0
	ahead, err := os.Stat(p.path(log))
	if err == nil && ahead.Size() == 0 {
		err = os.Remove(p.path(log))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: cannot remove an unused log: %w", err)
	}
	return nil
}

func (p *preallocator) path(log int) string {
	return filepath.Join(p.dir, fmt.Sprintf("%05d.mem", log))
}

// allocate creates a file, if there is none, and reserves space that its size doesn't show.
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
