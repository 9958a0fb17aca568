package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
)

// running runs a store with a short flush interval, whose database is in the storage process.
func running(t *testing.T, dir string, table Table) (s *Store, child *os.Process, stop func()) {
	t.Helper()
	cfg := testConfig(dir)
	cfg.FlushInterval = minFlushInterval
	s = mustOpenIn(t, database.StorageProcess, cfg, Parts{Table: table})
	s.status.lateAfter = 500 * time.Millisecond
	return s, storageProcess(t, dir), start(t, s)
}

// TestDatabaseStandsStill: while the storage process waits for its disk, samples are applied and
// Detail reports the lag. When the disk continues, nothing is missing.
func TestDatabaseStandsStill(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), newModel(4)
	s, child, stop := running(t, dir, model)
	model.put(1, 1, "a", "before")
	mustSync(t, s)
	must(t, child.Signal(syscall.SIGSTOP))
	defer child.Signal(syscall.SIGCONT)
	for began, i := time.Now(), uint16(0); time.Since(began) < 2*s.status.lateAfter; i++ {
		model.put(int(i%4), i%modelSlots, "a", "meanwhile")
		time.Sleep(time.Millisecond)
	}
	if lag := s.Lag(); lag < s.status.lateAfter {
		t.Fatalf("a lag of %v", lag)
	}
	if ok, detail := s.Detail(); ok || !strings.Contains(detail, "does not keep up") {
		t.Fatalf("Detail: %v %s", ok, detail)
	}
	must(t, child.Signal(syscall.SIGCONT))
	eventually(t, "caught up", func() bool { ok, _ := s.Detail(); return ok && s.Lag() < time.Second })
	stop()
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestDatabaseDies: when the storage process ends, Detail says so, the store starts another one,
// and nothing is missing.
func TestDatabaseDies(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 4)
	model.put(1, 1, "a", "before")
	clock.period(t)
	must(t, storageProcess(t, dir).Signal(syscall.SIGBUS))
	eventually(t, "a flush fails", func() bool {
		model.put(2, 1, "a", "meanwhile")
		clock.now = clock.now.Add(s.cfg.FlushInterval)
		return s.flushStep(clock.now) != nil
	})
	if ok, detail := s.Detail(); ok || !strings.Contains(detail, "process ended") {
		t.Errorf("Detail: %v %s", ok, detail)
	}
	model.put(3, 1, "a", "after")
	clock.now = clock.now.Add(firstRetry)
	clock.flush(t)
	if ok, detail := s.Detail(); !ok {
		t.Errorf("Detail: %s", detail)
	}
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestDatabaseDiesBeforeTheEnd: where the storage process dies just before the end, the last flush
// uses another process and nothing is lost.
func TestDatabaseDiesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), newModel(4)
	s, child, stop := running(t, dir, model)
	model.put(1, 1, "a", "before")
	mustSync(t, s)
	kill(t, child)
	model.put(2, 1, "a", "meanwhile")
	stop()
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestKilledInTheTrial: a process that is killed during the probe doesn't make its database
// suspect, however often that happens.
func TestKilledInTheTrial(t *testing.T) {
	t.Parallel()
	dir, model := makeDatabase(t)
	scratch := filepath.Join(dir, folder.ProbeName)
	for range folder.MaxDeaths {
		eventually(t, "the last trial's folder is gone", func() bool { return os.RemoveAll(scratch) == nil })
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+dir, hangingProbeEnv+"=1")
		must(t, child.Start())
		t.Cleanup(func() { _ = child.Process.Kill() })
		eventually(t, "the trial has begun", func() bool { _, err := os.Stat(scratch); return err == nil })
		must(t, child.Process.Kill())
		_ = child.Wait()
	}
	restored := newModel(0)
	s := mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	if _, detail := s.Detail(); s.count.setAside.Load() > 0 {
		t.Error(detail)
	}
	mustClose(t, s)
}
