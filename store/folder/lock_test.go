package folder

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

import ()

// TestHolderWithoutRoom: the process number in the lock is for messages alone, so a disk without
// space for it doesn't prevent a start.
func TestHolderWithoutRoom(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	if err := writeHolder(full); err != nil {
		t.Error(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("12345678901234567890\n"); err != nil {
		t.Fatal(err)
	}
	if err := writeHolder(file); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
		t.Errorf("%q, %v", text, err)
	}
}
