//go:build !linux

package database

import (
	"os"
	"syscall"
)

const noAccessTime = 0

// childAttributes puts a child in a process group of its own. Without Linux's parent death signal a
// child notices its parent's end by its closed pipes.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// fallocate is not supported: a full disk can then end the storage process.
func fallocate(*os.File, int64) error { return syscall.EOPNOTSUPP }
