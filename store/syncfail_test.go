package store

import (
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
)

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
