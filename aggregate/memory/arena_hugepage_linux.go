//go:build !race

package memory

import "golang.org/x/sys/unix"

// adviseHugePages asks the kernel for huge pages. If the kernel refuses, only speed suffers.
func adviseHugePages(memory []byte) { _ = unix.Madvise(memory, unix.MADV_HUGEPAGE) }
