package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
)

// A server that was killed leaves the lock to the process of its database for a moment. The next
// start waits for that instead of naming a dead process.
func TestStartRightAfterAKill(t *testing.T) {
	dead := exec.Command("true")
	must(t, dead.Run())
	dir := t.TempDir()
	for name, text := range map[string]string{"SLUICE": "sluice store, format 4\n", "LOCK": fmt.Sprintln(dead.Process.Pid)} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640))
	}
	lock, err := os.Open(filepath.Join(dir, "LOCK"))
	must(t, err)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	p := &dataPath{cfg: parsed(t, dir)}
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(300*time.Millisecond, func() { _ = lock.Close() })
		if err := p.checkDataFolder(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A kubeconfig that says the same is left alone: a start on a full disk needs no room for it.
// Another one takes its place whole.
func TestKubeconfigIsWrittenWhereItDiffers(t *testing.T) {
	dir := t.TempDir()
	stat := func(address string) os.FileInfo {
		t.Helper()
		path, err := writeKubeconfig(dir, address, "")
		must(t, err)
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "https://"+address) {
			t.Fatalf("%s, %v", text, err)
		}
		info, err := os.Stat(path)
		must(t, err)
		return info
	}
	first := stat("127.0.0.1:6443")
	if again := stat("127.0.0.1:6443"); !os.SameFile(first, again) || again.ModTime() != first.ModTime() {
		t.Error("the same was written again")
	}
	if other := stat("127.0.0.1:7443"); os.SameFile(first, other) || other.Mode().Perm() != 0o600 {
		t.Errorf("the file was written over, or is for others to read: %v", other.Mode())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

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

// Before everything is made, the checks answer (nothing of the path is there yet) and say what is
// waited for.
func TestNotReadyBeforeItIsWired(t *testing.T) {
	p := &dataPath{cfg: &serverConfig{standalone: true}}
	p.progress.wait("restoring the store")
	told := false
	for _, check := range p.checks() {
		ready, detail := check.State()
		if ready {
			t.Errorf("%s is ready before it was made", check.Name)
		}
		told = told || detail == "restoring the store"
	}
	if !told {
		t.Error("no check says what is waited for")
	}
}

func TestReadyWhenWired(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	for _, check := range p.checks() {
		ready, detail := check.State()
		if !ready {
			t.Errorf("%s is not ready: %s", check.Name, detail)
		}
		if check.Name == "listeners" && !strings.Contains(detail, p.push.Addr().String()) {
			t.Errorf("listeners are %q, want %s among them", detail, p.push.Addr())
		}
	}
}
