package loadtest

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressFitsTheTerminal(t *testing.T) {
	var done atomic.Int64
	done.Store(12_345_678)
	load := &shown{what: "blocking floor, 2,345,678 lines/s", unit: "lines", of: 50_000_000, done: &done}
	for _, columns := range []int{0, 1, 20, 79, 120, 200} {
		line := load.line("tagged-750k: run 1 of 5", columns)
		if n := len([]rune(line)); n > max(columns, 1) {
			t.Errorf("%d columns: %q has %d", columns, line, n)
		}
	}
	if line, want := load.line("tagged-10k: run 1 of 5", 200), "blocking floor, 2,345,678 lines/s: █████░░░░░░░░░░░░░░░░░░░ 12,345,678 of 50,000,000 lines"; !strings.HasSuffix(line, want) {
		t.Errorf("%q: want %q at its end", line, want)
	}
	idle := &shown{what: "disk stands still", begun: time.Now().Add(-12500 * time.Millisecond)}
	if line, want := idle.line("disk-stall-30s: run 1 of 1", 79), "disk-stall-30s: run 1 of 1: disk stands still: 12s"; line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

// What is a part of something is shown while it lasts, and the whole afterwards.
func TestProgressShowsTheInnermost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen strings.Builder
		m := &measurement{Config: Config{Progress: &seen}, title: "restart-750k"}
		whole := m.showWork("")
		part := m.showWork("server starts")
		time.Sleep(3*progressEvery + progressEvery/2)
		part()
		if got := seen.String(); !strings.Contains(got, "restart-750k: server starts: 0s") || strings.Contains(got, "restart-750k: 0s") {
			t.Errorf("seen %q: want the part alone", got)
		}
		m.display.mu.Lock() // which guards what is written, too
		seen.Reset()
		m.display.mu.Unlock()
		time.Sleep(3 * progressEvery)
		whole()
		if got := seen.String(); !strings.Contains(got, "restart-750k: ") || strings.Contains(got, "server") || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("seen %q: want the whole, and nothing left of it", got)
		}
	})
}
