package database

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sluice-metrics/sluice/store/folder"
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
