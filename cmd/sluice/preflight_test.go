package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A server that was killed leaves the lock to the process of its database for a moment. The next
// start waits for that instead of naming a dead process.
func TestStartRightAfterAKill(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"SLUICE": "sluice store, format 4\n", "LOCK": fmt.Sprintln(dead.Process.Pid)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := os.Open(filepath.Join(dir, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p := &dataPath{cfg: parsed(t, dir)}
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(300*time.Millisecond, func() { _ = lock.Close() })
		if err := p.checkDataFolder(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
