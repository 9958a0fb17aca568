package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// startWithout starts a store on a disk whose free space the test sets.
func startWithout(t *testing.T, cfg Config, table Table, place database.Place, free *atomic.Uint64) *Store {
	t.Helper()
	s, err := open(t.Context(), cfg, Parts{Table: table, Logger: quiet()}, place, func(string) (uint64, error) { return free.Load(), nil })
	must(t, err)
	return s
}

// TestNoRoomToOpen: a start on a disk too full to write restores everything, and persists again
// once there is space.
func TestNoRoomToOpen(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(*testing.T) (string, *modelTable){
		"closed": func(t *testing.T) (string, *modelTable) {
			return makeDatabase(t)
		},
		"killed": func(t *testing.T) (string, *modelTable) {
			k := makeKilled(t)
			dir, _ := k.copy(t)
			return dir, k.model
		},
		"new": func(t *testing.T) (string, *modelTable) { return t.TempDir(), newModel(0) },
	} {
		for _, place := range []database.Place{database.InProcess, database.StorageProcess} {
			t.Run(name, func(t *testing.T) {
				dir, before := made(t)
				var free atomic.Uint64
				free.Store(database.LeastFreeBytes - 1)
				table := newModel(0)
				s := startWithout(t, testConfig(dir), table, place, &free)
				before.mustEqual(t, table)
				if ok, detail := s.Detail(); ok || !table.done || !strings.Contains(detail, "MiB free") || strings.Contains(detail, "nothing was restored") {
					t.Fatalf("Detail: %v %s", ok, detail)
				}
				if s.db != nil || s.local != nil {
					t.Fatal("the database is open")
				}
				table.add(1)
				table.put(0, 3, "new", "1")
				clock := stepper{store: s, now: time.Now().Add(firstRetry)}
				if err := s.flushStep(clock.now); err == nil {
					t.Fatal("it flushed without room")
				}
				free.Store(1 << 40)
				clock.flush(t)
				if ok, detail := s.Detail(); !ok || strings.Contains(detail, "set aside") {
					t.Fatalf("Detail: %v %s", ok, detail)
				}
				table.put(0, 4, "newer", "2")
				clock.period(t)
				mustClose(t, s)
				mustRestore(t, dir, table)
				if aside, _ := filepath.Glob(filepath.Join(dir, folder.DatabaseName+".*")); len(aside) > 0 {
					t.Fatalf("set aside: %v", aside)
				}
			})
		}
	}
}

// TestUnreadWithoutRoom: a database that couldn't be read on a full disk is set aside under a name
// of its own once there is space, and not mixed with later samples. If it is sound, it can be
// restored under its old name.
func TestUnreadWithoutRoom(t *testing.T) {
	t.Parallel()
	dir, before := makeDatabase(t)
	cfg := testConfig(dir)
	cfg.ProbeTimeout = time.Nanosecond
	var free atomic.Uint64
	table := newModel(0)
	s := startWithout(t, cfg, table, database.InProcess, &free)
	if ok, detail := s.Detail(); ok || !table.done || len(table.blocks) > 0 || !strings.Contains(detail, "nothing was restored") {
		t.Fatalf("Detail: %v %s", ok, detail)
	}
	free.Store(1 << 40)
	table.add(1)
	table.put(0, 3, "new", "1")
	clock := stepper{store: s, now: time.Now().Add(firstRetry)}
	clock.flush(t)
	if ok, detail := s.Detail(); !ok || !strings.Contains(detail, "set aside as "+filepath.Join(dir, "badger.unrestored-")) {
		t.Fatalf("Detail: %v %s", ok, detail)
	}
	mustClose(t, s)
	mustRestore(t, dir, table)

	aside, err := filepath.Glob(filepath.Join(dir, "badger.unrestored-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("%v %v", aside, err)
	}
	for _, step := range [][2]string{{"badger", "badger.since"}, {filepath.Base(aside[0]), "badger"}} {
		must(t, os.Rename(filepath.Join(dir, step[0]), filepath.Join(dir, step[1])))
	}
	old := newModel(0)
	mustClose(t, mustOpen(t, dir, old))
	before.mustEqual(t, old)
}

// TestLossOnAFullDisk: a block that couldn't be restored is not overwritten, because there was no
// space to save it. All else is persisted.
func TestLossOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeChain(t, dir, 4)
	editDatabase(t, dir, func(txn database.Transaction) error { return txn.Delete(format.AppendDeltaKey(nil, 0, 1<<8)) })
	var free atomic.Uint64
	table := newModel(0)
	s := startWithout(t, testConfig(dir), table, database.InProcess, &free)
	if _, detail := s.Detail(); s.count.failedBlocks.Load() != 1 || !strings.Contains(detail, "1 could not be restored") {
		t.Fatalf("Detail: %s", detail)
	}
	table.blocks[0].series = map[uint16]modelSeries{}
	table.put(0, 9, "new", "1")
	free.Store(1 << 40)
	clock := stepper{store: s, now: time.Now().Add(firstRetry)}
	clock.flush(t)
	if _, detail := s.Detail(); !strings.Contains(detail, "began a new database: not all of it could be restored") ||
		!strings.Contains(detail, filepath.Join(dir, "badger.unrestored-")) {
		t.Fatalf("Detail: %s", detail)
	}
	mustClose(t, s)
	mustRestore(t, dir, table)
	if got := table.blocks[1].series[3].value; got != "stays" {
		t.Fatalf("the other block: %q", got)
	}
}

// TestEvidenceStays: files that show the damage of a database aren't overwritten while the start
// waits for space.
func TestEvidenceStays(t *testing.T) {
	t.Parallel()
	dir, _ := makeDatabase(t)
	manifest := databaseFiles(t, dir, "MANIFEST")[0]
	truncate(t, manifest, fileSize(t, manifest)-3)
	var free atomic.Uint64
	s := startWithout(t, testConfig(dir), newModel(0), database.InProcess, &free)
	if _, detail := s.Detail(); !strings.Contains(detail, "nothing was restored") {
		t.Fatalf("Detail: %s", detail)
	}
	before := contents(t, dir)
	must(t, s.syncOnce())
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("files changed: %v, before %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	if _, err := database.CheckManifest(filepath.Join(dir, folder.DatabaseName)); !errors.Is(err, format.ErrDamaged) {
		t.Errorf("the next start would take it: %v", err)
	}
}

// contents are the files of a database, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range databaseFiles(t, dir, "*") {
		text, err := os.ReadFile(file)
		must(t, err)
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// TestStartOnAFullDisk: a start on a real disk without a free byte restores everything, whether
// the last process closed its database or died.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"closed", "killed"} {
		t.Run(end, func(t *testing.T) {
			disk := smallDisk(t)
			dir, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
			child := startFullDiskChild(t, dir)
			child.ask("kept")
			if end == "killed" {
				_ = child.cmd.Process.Kill()
			}
			_ = child.in.Close()
			_ = child.cmd.Wait()
			fill(t, ballast)
			cfg, table := testConfig(dir), newModel(0)
			cfg.MinFreeBytes = database.LeastFreeBytes
			s, err := Open(t.Context(), cfg, Parts{Table: table, Logger: quiet()})
			must(t, err)
			stop := start(t, s)
			if len(table.blocks) != childBlocks || table.blocks[0].series[modelSlots-1].value != "kept" {
				_, detail := s.Detail()
				t.Fatalf("%d blocks restored: %s", len(table.blocks), detail)
			}
			must(t, os.Remove(ballast))
			eventually(t, "persisting again", func() bool { ok, _ := s.Detail(); return ok })
			table.put(0, modelSlots-2, "a", "later")
			mustSync(t, s)
			stop()
			mustClose(t, s)
			again := newModel(0)
			mustClose(t, mustOpen(t, dir, again))
			table.mustEqual(t, again)
		})
	}
}
