package database

import (
	"os"
	"syscall"
)

// noAccessTime opens a file without an update of its access time.
const noAccessTime = syscall.O_NOATIME

// childAttributes puts a child in a process group of its own and ends it with its parent thread.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// fallocate reserves disk space beyond the file's size and keeps the size.
func fallocate(file *os.File, bytes int64) error {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE, see fallocate(2)
	return syscall.Fallocate(int(file.Fd()), keepSize, 0, bytes)
}
