package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

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
