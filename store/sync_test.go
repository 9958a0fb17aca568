package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/wal"
)

// TestSyncAfterAFailedOne: the kernel reports a failed fsync once, and forgets the pages that it
// couldn't write. So after one nothing is acknowledged until the database was closed, which writes
// the content of its logs into tables.
func TestSyncAfterAFailedOne(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 6)
	model.add(2)
	model.put(1, 5, "a", "1")
	clock.period(t)
	log := databaseFiles(t, dir, "*.mem")[0]
	before := headerOf(t, log)

	unsyncable := breakSync(t, s)
	if err := s.syncOnce(); err == nil {
		t.Fatal("a sync succeeded, though one log cannot be synced")
	}
	if ok, detail := s.Detail(); ok || !strings.Contains(detail, "not persisting: store: cannot sync") {
		t.Errorf("right after a failed sync: %v %q", ok, detail)
	}
	removeFile(t, unsyncable)
	if err := s.syncOnce(); err == nil {
		t.Error("the sync after a failed one succeeded, though nobody knows what the logs lack")
	}
	clock.now = clock.now.Add(s.cfg.FlushInterval)
	if err := s.flushStep(clock.now); err == nil {
		t.Error("a flush went on after a failed sync")
	}
	clock.now = clock.now.Add(firstRetry)
	clock.flush(t)
	if err := s.syncOnce(); err != nil {
		t.Error("a sync after the database was opened again:", err)
	}
	if bytes.Equal(headerOf(t, log), before) {
		t.Error("the log that could not be synced is still in use")
	}
	if ok, detail := s.Detail(); !ok {
		t.Errorf("after the database was opened again: %q", detail)
	}
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// breakSync adds a log that cannot be synced, and returns its path.
func breakSync(t *testing.T, s *Store) string {
	t.Helper()
	path := filepath.Join(s.folder.Database(), "00099.mem")
	if err := os.Symlink("/dev/null", path); err != nil { // fsync(2): EINVAL
		t.Fatal(err)
	}
	return path
}

// headerOf is the part of a log that no other log has.
func headerOf(t *testing.T, log string) []byte {
	t.Helper()
	content, err := os.ReadFile(log)
	if err != nil || len(content) < wal.HeaderBytes {
		t.Fatalf("%s has %d bytes (%v)", log, len(content), err)
	}
	return content[:wal.HeaderBytes]
}

// TestFirstSyncOfAReopenedDatabaseFails: if the first sync after reopening fails, the database is
// closed and opened once more before the next sync.
func TestFirstSyncOfAReopenedDatabaseFails(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), newModel(1))
	clock := newStepper(s)
	clock.period(t)
	before := headerOf(t, databaseFiles(t, s.folder.Dir, "*.mem")[0])

	s.mustSync = true // as if the database had just been opened again
	s.status.setNotPersisting("a sync failed")
	unsyncable := breakSync(t, s)
	clock.now = clock.now.Add(s.cfg.FlushInterval)
	if err := s.flushStep(clock.now); err == nil {
		t.Fatal("a flush succeeded, though one log cannot be synced")
	}
	removeFile(t, unsyncable)
	if err := s.syncOnce(); err == nil {
		t.Error("the sync after a failed one succeeded, though nobody knows what the logs lack")
	}
	clock.now = clock.now.Add(2 * firstRetry)
	clock.flush(t)
	if bytes.Equal(headerOf(t, databaseFiles(t, s.folder.Dir, "*.mem")[0]), before) {
		t.Error("the log that could not be synced is still in use")
	}
	mustClose(t, s)
}

// TestDatabaseDiesAfterAFailedSync: the logs of a database that did not close are read again,
// whatever the disk lacks of them. So syncs stay off until it has closed.
func TestDatabaseDiesAfterAFailedSync(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 2)
	model.put(1, 5, "a", "1")
	clock.period(t)
	unsyncable := breakSync(t, s)
	if err := s.syncOnce(); err == nil {
		t.Fatal("a sync succeeded, though one log cannot be synced")
	}
	removeFile(t, unsyncable)
	kill(t, storageProcess(t, dir))
	clock.now = clock.now.Add(s.cfg.FlushInterval)
	_ = s.flushStep(clock.now) // notices the failed sync
	clock.now = clock.now.Add(firstRetry)
	if err := s.flushStep(clock.now); err == nil {
		t.Error("a flush went on with the logs of a failed sync")
	}
	clock.now = clock.now.Add(2 * firstRetry)
	clock.flush(t)
	if err := s.syncOnce(); err != nil {
		t.Error("a sync after the database was closed and opened again:", err)
	}
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestFailedSync: a failed sync shows at once in Detail and in the metrics, until one succeeds.
// Flushed changes are there afterwards.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	cfg.SyncInterval = cfg.FlushInterval
	model := newModel(2)
	s := mustOpenIn(t, database.StorageProcess, cfg, Parts{Table: model})
	log := &logtest.Buffer{}
	s.logger = slog.New(slog.NewTextHandler(log, nil))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	stop := start(t, s)
	model.put(0, 1, "a", "before")
	mustSync(t, s)
	unopenable := filepath.Join(s.folder.Database(), "x.mem") // a log, by its name, that leads to itself
	must(t, os.Symlink(unopenable, unopenable))
	eventually(t, "Detail says that the disk cannot be synced", func() bool {
		ok, detail := s.Detail()
		return !ok && strings.Contains(detail, "not persisting") && strings.Contains(detail, syscall.ELOOP.Error())
	})
	want := `
# HELP sluice_store_persisting 1 while changes are written to disk, 0 while the disk is too full or failing.
# TYPE sluice_store_persisting gauge
sluice_store_persisting 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "sluice_store_persisting"); err != nil {
		t.Error(err)
	}
	if s.count.failures.Load() == 0 {
		t.Error("no failure was counted")
	}
	model.put(1, 1, "b", "meanwhile")
	if err := s.Sync(t.Context()); err == nil {
		t.Error("Sync succeeded")
	}
	tried := log.Count("not persisting")
	eventually(t, "two more tries", func() bool {
		if ok, detail := s.Detail(); ok {
			t.Fatalf("Detail while no sync succeeds: %s", detail)
		}
		return log.Count("not persisting") >= tried+2
	})
	must(t, os.Remove(unopenable))
	eventually(t, "persisting again", func() bool { ok, _ := s.Detail(); return ok })
	model.put(1, 2, "c", "after")
	mustSync(t, s)
	stop()
	mustClose(t, s)
	mustRestore(t, cfg.Dir, model)
}

// TestRemovedLock: a lock file that was removed or replaced by hand is noticed.
func TestRemovedLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, newModel(1))
	s.watchInterval = 10 * time.Millisecond
	start(t, s)
	lock := filepath.Join(dir, folder.LockName)
	for _, replaced := range []bool{false, true} {
		aside := lock + ".aside"
		must(t, os.Rename(lock, aside))
		if replaced {
			touch(t, lock)
		}
		eventually(t, "Detail says that the lock is gone", func() bool {
			ok, detail := s.Detail()
			return !ok && strings.Contains(detail, lock) && strings.Contains(detail, "restart")
		})
		must(t, os.Rename(aside, lock))
		eventually(t, "Detail says nothing of a lock that is back", func() bool { ok, _ := s.Detail(); return ok })
	}
}
