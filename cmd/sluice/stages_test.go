package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// noted makes a stage that takes a second to finish once it is stopped, and notes when it has.
func noted(name string, into *[]string) stage {
	return stage{name, func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(time.Second)
		*into = append(*into, name) // no lock: only one stage stops at a time, which is what is tested
		return nil
	}}
}

func TestStagesStopInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		ctx, cancel := context.WithCancel(context.Background())
		stages := []stage{noted("sockets", &stopped), noted("table", &stopped), noted("store", &stopped)}
		time.AfterFunc(time.Minute, cancel)
		if err := runStages(ctx, slog.New(slog.DiscardHandler), stages); err != nil {
			t.Error(err)
		}
		if want := []string{"sockets", "table", "store"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped in order %v, want %v", stopped, want)
		}
	})
}

func TestFailingStageStopsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		broken := errors.New("socket closed")
		stages := []stage{
			noted("sockets", &stopped),
			{"push", func(context.Context) error { return broken }},
			noted("store", &stopped),
		}
		err := runStages(context.Background(), slog.New(slog.DiscardHandler), stages)
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
		if want := []string{"sockets", "store"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped %v, want %v", stopped, want)
		}
	})
}

func TestFaultOfALateStageIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := runStages(ctx, slog.New(slog.DiscardHandler), []stage{
			{"store", func(ctx context.Context) error { <-ctx.Done(); return full }},
		})
		if !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	})
}

func TestAfterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		later, release := afterDelay(ctx, 10*time.Second, slog.New(slog.DiscardHandler))
		defer release()
		time.Sleep(time.Hour)
		if later.Err() != nil {
			t.Fatal("it ended before its parent")
		}
		cancel()
		start := time.Now()
		<-later.Done()
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("it ended %v after its parent: want 10s", got)
		}
	})
}

func TestNoDelay(t *testing.T) {
	ctx := t.Context()
	if later, _ := afterDelay(ctx, 0, nil); later != ctx {
		t.Error("without a delay there is another context")
	}
}

// A part that fails ends the server without a delay: nothing waits for traffic to go elsewhere.
func TestFailureIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later, release := afterDelay(context.Background(), time.Hour, slog.New(slog.DiscardHandler))
		defer release()
		start := time.Now()
		_ = runStages(later, slog.New(slog.DiscardHandler), []stage{{"push", func(context.Context) error { return nil }}})
		if time.Since(start) != 0 {
			t.Errorf("it waited %v", time.Since(start))
		}
	})
}

// TestShutdownDelay: after SIGTERM a server is not ready, and takes pushes until the delay is over. A
// second SIGTERM ends it at once.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	s := startServing(t, t.TempDir(), "--shutdown-delay=1h")
	s.ask(http.MethodGet, s.ops+"/readyz", "")
	s.signal(syscall.SIGTERM)
	s.awaitUnready()
	s.ask(http.MethodPut, s.at+depth, "7")
	if got := s.ask(http.MethodGet, s.at+depth, ""); !strings.Contains(got, "7") {
		t.Errorf("a push during the delay is not served: %s", got)
	}
	for {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // the first ones may come before it listens no more
		select {
		case err := <-s.done:
			if err == nil {
				t.Error("it ended in order, want it ended by the signal")
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// awaitUnready waits until /readyz fails because the server is stopping.
func (s *serving) awaitUnready() {
	s.t.Helper()
	for range 10_000 {
		resp, err := http.Get(s.ops + "/readyz")
		must(s.t, err)
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatal("it is still ready")
}
