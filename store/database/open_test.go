package database

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A database whose lock is held for a moment more is opened.
func TestOpenWaitsForALock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := openLocal(localOptions(dir, quiet), quiet)
	must(t, err)
	must(t, db.Close())
	held, err := os.Open(dir)
	must(t, err)
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	time.AfterFunc(10*lockPause, func() { _ = held.Close() })
	db, err = openLocal(localOptions(dir, quiet), quiet)
	must(t, err)
	must(t, db.Close())
}
