package store

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"
)

// childEnv makes the test binary a process that persists until it is killed.
const childEnv = "SLUICE_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
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
	return c
}

// mustOpen opens a store that the test closes, unless it did so itself.
func mustOpen(t testing.TB, dir string, table Table) *Store {
	t.Helper()
	s, err := Open(t.Context(), testConfig(dir), Parts{Table: table, Logger: quiet()})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // t.Context has ended by then
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// A stepper flushes by hand, in a time of its own.
type stepper struct {
	store *Store
	now   time.Time
}

func newStepper(s *Store) *stepper { return &stepper{store: s, now: time.Now()} }

// period flushes in a new period.
func (s *stepper) period(t testing.TB) {
	t.Helper()
	s.now = s.now.Add(s.store.cfg.FlushInterval)
	s.flush(t)
}

func (s *stepper) flush(t testing.TB) {
	t.Helper()
	if err := s.store.step(s.now); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// keptHere has a test's databases in this process, where they can be looked into.
func keptHere(t *testing.T) {
	t.Helper()
	canBeApart = false
	t.Cleanup(func() { canBeApart = true })
}
