package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
)

// A server starts on an empty data folder whose disk is full, says what it does without, and
// persists once there is room.
func TestEmptyFolderOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=160m"); err != nil {
		t.Skipf("needs to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	dir, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	must(t, os.Mkdir(dir, 0o750))
	file, err := os.Create(ballast)
	must(t, err)
	for chunk := int64(1 << 20); chunk >= 4096; {
		end, _ := file.Seek(0, 2)
		if syscall.Fallocate(int(file.Fd()), 0, end, chunk) != nil {
			chunk /= 2
		}
	}
	must(t, file.Close())
	t.Run("full", func(t *testing.T) {
		s := startServing(t, dir, "--min-free-disk=64MiB")
		s.ask(http.MethodPut, s.at+depth, "7")
		if got := s.ask(http.MethodGet, s.ops+"/readyz", ""); !strings.Contains(got, "not persisting") {
			t.Errorf("/readyz does not say that the disk is full:\n%s", got)
		}
		must(t, os.Remove(ballast))
		for deadline := time.Now().Add(time.Minute); strings.Contains(s.ask(http.MethodGet, s.ops+"/readyz", ""), "not persisting"); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("not persisting a minute after there is room")
			}
		}
		s.signal(syscall.SIGTERM)
		s.mustEndWell()
	})
	t.Run("with room", func(t *testing.T) {
		s := startServing(t, dir, "--min-free-disk=64MiB")
		if got := s.ask(http.MethodGet, s.at+depth, ""); !strings.Contains(got, "7") {
			t.Errorf("what was pushed on the full disk is not there: %s", got)
		}
		for _, name := range []string{"SLUICE", client.KubeconfigName, caName} {
			if stat, err := os.Stat(filepath.Join(dir, name)); err != nil || stat.Size() == 0 {
				t.Errorf("%s is empty or missing: %v", name, err)
			}
		}
		s.signal(syscall.SIGTERM)
		s.mustEndWell()
	})
}
