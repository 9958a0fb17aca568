package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func TestWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path+TempSuffix, []byte("left behind by a power cut"), 0o644))
	for _, content := range []string{"first", "second, and longer", ""} {
		must(t, WriteFile(path, []byte(content), 0o600))
		if got := read(t, path); got != content {
			t.Errorf("read %q, want %q", got, content)
		}
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", stat.Mode(), err)
	}
	if _, err := os.Stat(path + TempSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}

// TestFullDiskKeepsTheOldFile: on a disk without room the error is ENOSPC, and the file keeps what
// it had.
func TestFullDiskKeepsTheOldFile(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs to mount a small disk: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(disk, "file")
	must(t, WriteFile(path, []byte("old"), 0o600))
	if err := WriteFile(path, bytes.Repeat([]byte("new"), 64<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
	if got := read(t, path); got != "old" {
		t.Errorf("read %q, want the old content", got)
	}
	if _, err := os.Stat(path + TempSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}

func TestMkdirAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 { // the second time it is there
		must(t, MkdirAll(dir, 0o750))
	}
	if stat, err := os.Stat(dir); err != nil || !stat.IsDir() {
		t.Errorf("%v, %v", stat, err)
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := MkdirAll(path, 0o750); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("MkdirAll(%s): %v, want that a file is not a directory", path, err)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
