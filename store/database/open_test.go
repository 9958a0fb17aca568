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
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*lockPause, func() { _ = held.Close() })
	db, err = openLocal(localOptions(dir, quiet), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
