package store

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startWithout starts a store on a disk whose free space is what the test says.
func startWithout(t *testing.T, cfg Config, table Table, apart bool, free *atomic.Uint64) *Store {
	t.Helper()
	folder, err := openFolder(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{cfg: cfg, logger: quiet(), table: table, folder: folder, apart: apart, kick: make(chan struct{}, 1),
		free: func(string) (uint64, error) { return free.Load(), nil }}
	s.init(nil)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNoRoomToOpen: with too little room to write at the start, all is restored, and goes on being persisted once there is room.
func TestNoRoomToOpen(t *testing.T) {
	for name, made := range map[string]func(*testing.T) (string, *modelTable){
		"closed": func(t *testing.T) (string, *modelTable) {
			dir := t.TempDir()
			return dir, makeDatabase(t, dir)
		},
		"killed": func(t *testing.T) (string, *modelTable) {
			k := makeKilled(t)
			return k.dir, k.model
		},
		"new": func(t *testing.T) (string, *modelTable) { return t.TempDir(), newModel(0) },
	} {
		for _, apart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir, before := made(t)
				var free atomic.Uint64
				free.Store(leastFreeBytes - 1)
				table := newModel(0)
				s := startWithout(t, testConfig(dir), table, apart, &free)
				before.mustEqual(t, table)
				if ok, detail := s.Detail(); ok || !table.done || !strings.Contains(detail, "MiB free") || strings.Contains(detail, "nothing was restored") {
					t.Fatalf("Detail: %v %s", ok, detail)
				}
				if s.db != nil || s.here != nil {
					t.Fatal("the database is open")
				}
				table.add(1)
				table.put(0, 3, "new", "1")
				clock := stepper{store: s, now: time.Now().Add(firstRetry)}
				if err := s.step(clock.now); err == nil {
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
				restored := newModel(0)
				again := mustOpen(t, dir, restored)
				table.mustEqual(t, restored)
				if again.count.cutBlocks.Load()+again.count.failedBlocks.Load() > 0 {
					t.Fatal("restored with losses")
				}
				if aside, _ := filepath.Glob(filepath.Join(dir, databaseName+".*")); len(aside) > 0 {
					t.Fatalf("set aside: %v", aside)
				}
			})
		}
	}
}

// TestUnreadWithoutRoom: what could not be read on a full disk is set aside under a name of its own once there is room, and not mixed with
// what came after. If it was whole, it is restored from once it has its old name again.
func TestUnreadWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	before := makeDatabase(t, dir)
	cfg := testConfig(dir)
	cfg.TrialTimeout = time.Nanosecond
	var free atomic.Uint64
	table := newModel(0)
	s := startWithout(t, cfg, table, false, &free)
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
	restored := newModel(0)
	mustClose(t, mustOpen(t, dir, restored))
	table.mustEqual(t, restored)

	aside, err := filepath.Glob(filepath.Join(dir, "badger.unrestored-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("%v %v", aside, err)
	}
	for _, step := range [][2]string{{"badger", "badger.since"}, {filepath.Base(aside[0]), "badger"}} {
		if err := os.Rename(filepath.Join(dir, step[0]), filepath.Join(dir, step[1])); err != nil {
			t.Fatal(err)
		}
	}
	old := newModel(0)
	mustClose(t, mustOpen(t, dir, old))
	before.mustEqual(t, old)
}

// TestStartOnAFullDisk: on a real disk without a byte left all is restored, whether the last process closed its database or died.
func TestStartOnAFullDisk(t *testing.T) {
	for _, end := range []string{"closed", "killed"} {
		t.Run(end, func(t *testing.T) {
			disk := t.TempDir()
			if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256m"); err != nil {
				t.Skipf("needs to mount a small disk: %v", err)
			}
			defer func() {
				if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil { // a log stays mapped, see restoreOnly
					t.Error(err)
				}
			}()
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
			cfg.MinFreeBytes = leastFreeBytes
			s, err := Open(t.Context(), cfg, Parts{Table: table, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			stop := start(t, s)
			if len(table.blocks) != childBlocks || table.blocks[0].series[modelSlots-1].value != "kept" {
				_, detail := s.Detail()
				t.Fatalf("%d blocks restored: %s", len(table.blocks), detail)
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			eventually(t, "persisting again", func() bool { ok, _ := s.Detail(); return ok })
			table.put(0, modelSlots-2, "a", "later")
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			again := newModel(0)
			mustClose(t, mustOpen(t, dir, again))
			table.mustEqual(t, again)
		})
	}
}
