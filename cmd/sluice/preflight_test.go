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
