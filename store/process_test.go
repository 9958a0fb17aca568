package store

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running runs a store with a short flush interval, whose database is in the storage process.
func running(t *testing.T, dir string, table Table) (s *Store, child *os.Process, stop func() error) {
	t.Helper()
	cfg := testConfig(dir)
	cfg.FlushInterval = minFlushInterval
	s, err := Open(t.Context(), cfg, Parts{Table: table, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
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
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
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
	if err := child.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "caught up", func() bool { ok, _ := s.Detail(); return ok && s.Lag() < time.Second })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	restored := newModel(0)
	again := mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	if again.count.cutBlocks.Load()+again.count.failedBlocks.Load()+s.count.failures.Load() > 0 {
		t.Fatal("restored with losses")
	}
}

// TestDatabaseDies: when the storage process ends, Detail says so, the store starts another one,
// and nothing is missing.
func TestDatabaseDies(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), newModel(4)
	s, child, stop := running(t, dir, model)
	model.put(1, 1, "a", "before")
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := child.Signal(syscall.SIGBUS); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the process in Detail", func() bool {
		model.put(2, 1, "a", "meanwhile")
		ok, detail := s.Detail()
		return !ok && strings.Contains(detail, "process ended")
	})
	eventually(t, "another process", func() bool { ok, _ := s.Detail(); return ok && s.Lag() < time.Second })
	model.put(3, 1, "a", "after")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	restored := newModel(0)
	again := mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	if lost := again.count.cutBlocks.Load() + again.count.failedBlocks.Load() + again.count.setAside.Load(); lost > 0 {
		t.Fatal("restored with losses")
	}
}

// TestDatabaseDiesBeforeTheEnd: where the storage process dies just before the end, the last flush
// uses another process and nothing is lost.
func TestDatabaseDiesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), newModel(4)
	s, child, stop := running(t, dir, model)
	model.put(1, 1, "a", "before")
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	kill(t, child)
	model.put(2, 1, "a", "meanwhile")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	restored := newModel(0)
	again := mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	if lost := again.count.cutBlocks.Load() + again.count.failedBlocks.Load() + again.count.setAside.Load(); lost > 0 {
		t.Fatal("restored with losses")
	}
}
