package loadtest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// minFreeBytes covers the 256 MiB that the server keeps free (a quarter more after a pause) and
// the data of any scenario.
const minFreeBytes = 1 << 30

// checkDiskSpace rejects a temporary folder with too little space: the server would stop
// persisting, and a line would cost less.
func checkDiskSpace() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &disk); err != nil {
		return fmt.Errorf("%s: %w", os.TempDir(), os.NewSyscallError("statfs", err))
	}
	return diskSpaceFault(os.TempDir(), disk.Bavail*uint64(disk.Bsize))
}

func diskSpaceFault(dir string, free uint64) error {
	if free >= minFreeBytes {
		return nil
	}
	return fmt.Errorf("%s has %d MiB of free space; must have %d MiB, since the server does not persist to a nearly full disk. Set TMPDIR to another folder",
		dir, free>>20, minFreeBytes>>20)
}
