package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/store/wal"
)

// TestSyncAfterAFailedOne: the kernel reports a failed fsync once, and forgets the pages that it
// couldn't write. So after one nothing is acknowledged until the database was closed, which writes
// the content of its logs into tables.
func TestSyncAfterAFailedOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newModel(6)
	s := mustOpen(t, dir, model)
	clock := newStepper(s)
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
	dir, model := t.TempDir(), newModel(2)
	s := mustOpen(t, dir, model)
	clock := newStepper(s)
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
