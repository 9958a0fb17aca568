package database

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/sluice-metrics/sluice/store/wal"
)

// TestLogsArePreallocated: after each transaction the logs have all the disk space that Badger may
// still use, and Badger took the file that was created for it.
func TestLogsArePreallocated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := openLocal(localOptions(dir, quiet), quiet)
	must(t, err)
	logs := &db.maintenance.logs
	if logs.unsupported {
		t.Skip("the file system cannot reserve space")
	}
	first := logs.next
	value := bytes.Repeat([]byte("x"), MaxTransactionBytes-1000)
	for i := range 40 {
		mustWrite(t, db, "key"+strconv.Itoa(i), value)
		for _, log := range wal.List(dir) {
			stat, err := os.Stat(log.Path)
			if err != nil {
				continue // it became a table
			}
			if space := stat.Sys().(*syscall.Stat_t).Blocks * 512; log.Number >= logs.next-1 && space < logBytes && logs.next != log.Number+1 {
				t.Fatalf("transaction %d: %s has space for %d bytes", i, log.Path, space)
			}
		}
	}
	if logs.next < first+2 {
		t.Fatalf("the logs went from %d to %d only", first, logs.next)
	}
	must(t, db.Close())
	if logs := wal.List(dir); len(logs) > 0 {
		t.Fatalf("left behind: %v", logs)
	}
}
