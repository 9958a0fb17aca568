package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
)

// childEnv makes the test binary a process that persists until it is killed.
const childEnv = "SLUICE_STORE_TEST_CHILD"

// hangingProbeEnv, beside childEnv, makes the child's probe hang. probeEnv is set in every probe.
const (
	hangingProbeEnv = "SLUICE_STORE_TEST_HANGING_PROBE"
	probeEnv        = "SLUICE_STORE_TRIAL"
)

func TestMain(m *testing.M) {
	if os.Getenv(hangingProbeEnv) != "" && os.Getenv(probeEnv) != "" {
		time.Sleep(time.Hour) // until it is killed
	}
	if code, isChild := ChildMain(); isChild {
		os.Exit(code)
	}
	if dir := os.Getenv(childEnv); dir != "" {
		work := childMain
		if os.Getenv(fullDiskEnv) != "" {
			work = fullDiskMain
		}
		if err := work(dir); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func testConfig(dir string) Config {
	c := DefaultConfig()
	c.Dir = dir
	c.ProbeTimeout, c.StopTimeout = time.Hour, time.Hour // no slow test runs into them
	return c
}

// mustOpen opens a store, which the test may close.
func mustOpen(t testing.TB, dir string, table Table) *Store {
	t.Helper()
	return mustOpenIn(t, database.StorageProcess, testConfig(dir), Parts{Table: table})
}

// mustOpenLocal opens a store whose database stays in this process, for tests of the restore and
// of the checks before it.
func mustOpenLocal(t testing.TB, dir string, table Table) *Store {
	t.Helper()
	return mustOpenIn(t, database.InProcess, testConfig(dir), Parts{Table: table})
}

func mustOpenIn(t testing.TB, place database.Place, cfg Config, parts Parts) *Store {
	t.Helper()
	parts.Logger = quiet()
	var s *Store
	var err error
	eventually(t, "the storage process of the last store has ended", func() bool {
		s, err = open(t.Context(), cfg, parts, place, database.FreeBytes)
		return !errors.Is(err, folder.ErrInUse)
	})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	s.status.lateAfter = time.Hour
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // t.Context has ended by then
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// mustRestore checks that a closed store's folder has exactly the model's state.
func mustRestore(t testing.TB, dir string, model *modelTable) {
	t.Helper()
	restored := newModel(0)
	s := mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	mustLoseNothing(t, s)
	mustClose(t, s)
}

// mustLoseNothing checks that a store restored all that was in its folder.
func mustLoseNothing(t testing.TB, s *Store) {
	t.Helper()
	if s.count.setAside.Load()+s.count.failedBlocks.Load()+s.count.cutBlocks.Load() > 0 {
		_, detail := s.Detail()
		t.Fatalf("restored with losses: %s", detail)
	}
}

// A stepper flushes by hand, on a clock of its own.
type stepper struct {
	store *Store
	now   time.Time
}

func newStepper(s *Store) *stepper {
	s.flusher.pacer.urgent = func() bool { return true } // nobody needs the processor in between
	return &stepper{store: s, now: time.Now()}
}

// opened opens a store over a model of some blocks, in a folder of its own.
func opened(t testing.TB, blocks int) (dir string, model *modelTable, s *Store, clock *stepper) {
	t.Helper()
	dir, model = t.TempDir(), newModel(blocks)
	s = mustOpen(t, dir, model)
	return dir, model, s, newStepper(s)
}

// period flushes in a new period.
func (s *stepper) period(t testing.TB) {
	t.Helper()
	s.now = s.now.Add(s.store.cfg.FlushInterval)
	s.flush(t)
}

func (s *stepper) flush(t testing.TB) {
	t.Helper()
	if err := s.store.flushStep(s.now); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// editDatabase changes entries of a closed database.
func editDatabase(t *testing.T, dir string, edit func(txn database.Transaction) error) {
	t.Helper()
	f, err := folder.Open(dir)
	must(t, err)
	opener := database.Opener{Folder: f, Logger: quiet()}
	opened, err := opener.Reopen(database.InProcess)
	must(t, err)
	txn := opened.DB.Begin()
	must(t, errors.Join(edit(txn), txn.Commit(), opened.DB.Close(), f.Release()))
}

// storageProcess finds the storage process of a data folder.
func storageProcess(t *testing.T, dir string) *os.Process {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range all {
		if line, _ := os.ReadFile(path); strings.HasPrefix(strings.Join(strings.Split(string(line), "\x00"), " "), os.Args[0]) &&
			strings.Contains(string(line), "(database "+dir+"/") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			process, err := os.FindProcess(pid)
			must(t, err)
			return process
		}
	}
	t.Fatal("there is no storage process")
	return nil
}

// kill kills the storage process and waits until the store has seen its end.
func kill(t *testing.T, process *os.Process) {
	t.Helper()
	must(t, process.Kill())
	eventually(t, "the storage process has ended", func() bool { return process.Signal(syscall.Signal(0)) != nil })
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
