package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// freeBytes is what the disk can still give beyond what Badger may take by itself: what the file system says is
// free, less what its logs were promised but did not get (they are sparse, and mapped: a page that cannot be had
// is a SIGBUS), and less as much again as its tables hold, which a compaction may write before it frees any.
func freeBytes(dir string) (uint64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("store: cannot see how much of the disk is free: %w", err)
	}
	free := disk.Bavail * uint64(disk.Bsize)
	claimed := claimedBytes(filepath.Join(dir, databaseName))
	return free - min(free, claimed), nil
}

// claimedBytes is what a database may still take without being given anything new.
func claimedBytes(database string) uint64 {
	var sum int64
	entries := readNames(database) // none yet: nothing is claimed
	for _, e := range entries {
		file, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		switch filepath.Ext(e.Name()) {
		case ".sst":
			sum += file.Size()
		case ".mem", ".vlog":
			if stat, ok := file.Sys().(*syscall.Stat_t); ok {
				sum += max(0, min(stat.Size, logBytes)-stat.Blocks*512)
			}
		}
	}
	return uint64(sum)
}

// readNames reads a folder without noting that in its inode, which may wait for a disk that stands still.
func readNames(dir string) []fs.DirEntry {
	file, err := os.OpenFile(dir, os.O_RDONLY|noAccessTime, 0)
	if errors.Is(err, syscall.EPERM) { // somebody else's folder
		file, err = os.Open(dir)
	}
	if err != nil {
		return nil
	}
	defer file.Close()
	entries, _ := file.ReadDir(-1)
	return entries
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }
