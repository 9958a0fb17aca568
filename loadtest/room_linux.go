package loadtest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// leastRoom is what the server keeps free (256 MiB, and a quarter more once it paused), and what any scenario makes it
// write, with room to spare.
const leastRoom = 1 << 30

// checkRoom refuses a folder for temporary files without room for the server's data: it would go on without persisting,
// which costs less. A target keeps what it likes where it likes.
func (c Config) checkRoom() error {
	if c.Target != "" {
		return nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &disk); err != nil {
		return fmt.Errorf("%s: %w", os.TempDir(), os.NewSyscallError("statfs", err))
	}
	return roomFault(os.TempDir(), disk.Bavail*uint64(disk.Bsize))
}

func roomFault(dir string, free uint64) error {
	if free >= leastRoom {
		return nil
	}
	return fmt.Errorf("%s has %d MiB free: want %d MiB, for the server keeps its data there and persists nothing on a disk that is nearly full; TMPDIR names another folder",
		dir, free>>20, leastRoom>>20)
}
