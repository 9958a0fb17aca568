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

// TestDatabaseStandsStill: while the database's process waits for its disk, what is applied is applied, the store says
// how far it is behind, and when the disk goes on nothing is missing.
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

// TestDatabaseDies: when the database's process ends, however that is, the store says so, starts another one, and
// nothing is missing.
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

// TestDatabaseDiesBeforeTheEnd: an end that follows the death of the database's process at once loses nothing: the last
// flush goes to another process.
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
