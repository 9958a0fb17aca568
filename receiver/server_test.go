package receiver

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
)

// A receiver without listeners has nothing to do, and yet does not end before it is told to: whoever runs it would take that for
// a fault.
func TestRunWithoutListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := DefaultConfig()
		config.Listeners = nil
		s, err := New(config, Parts{Ledger: NewLedger(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("Run ended by itself")
		}
		cancel()
		synctest.Wait()
		if !ended {
			t.Error("Run goes on after its context ended")
		}
	})
}
