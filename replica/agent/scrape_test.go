package agent

import (
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// fetches notes what starts and stops.
type fetches struct{ running []uint64 }

func (f *fetches) Start(t metric.ScrapeTarget) { f.running = append(f.running, t.Number) }
func (f *fetches) Stop(number uint64) {
	f.running = slices.DeleteFunc(f.running, func(n uint64) bool { return n == number })
}

func target(number uint64) *agentwire.Target {
	return &agentwire.Target{Number: number, Address: []byte{10, 0, 0, 1}, Port: 80, Path: "/", Names: []string{"a"}, IntervalNanos: int64(time.Second)}
}

func TestScrapeFollowsItsServer(t *testing.T) {
	s, f := NewScrape(), &fetches{}
	s.By(f)
	is := func(want ...uint64) {
		t.Helper()
		if !slices.Equal(f.running, want) || s.number() != len(want) {
			t.Errorf("targets %v (%d), want %v", f.running, s.number(), want)
		}
	}
	bad := []*agentwire.Target{target(7), target(8), target(9)}
	bad[0].Address, bad[1].Port, bad[2].IntervalNanos = []byte{1}, 70_000, 0
	s.follow(&agentwire.Targets{Add: append(bad, target(1), target(2), target(2))})
	is(1, 2)
	s.follow(&agentwire.Targets{Drop: []uint64{1, 5}, Add: []*agentwire.Target{target(3)}})
	is(2, 3)
	s.Fetched(&metric.ScrapedPage{Target: 2, Result: "ok"})
	s.end()
	is()
	if pages := s.take(); len(pages) > 0 {
		t.Errorf("%d pages are left for another server", len(pages))
	}
}

// A page has lines of its own and a text that can be sent; of a target that has ended it is dropped, and so it is beyond the
// limit of what waits.
func TestPagesThatWait(t *testing.T) {
	s := NewScrape()
	s.By(&fetches{})
	s.follow(&agentwire.Targets{Add: []*agentwire.Target{target(1)}})
	lines := []byte("a 1\n")
	s.Fetched(&metric.ScrapedPage{Target: 1, Result: "ok", Fault: "\xff", Lines: lines})
	s.Fetched(&metric.ScrapedPage{Target: 2, Result: "ok", Lines: lines})
	lines[0] = 'b'
	select {
	case <-s.changed:
	default:
		t.Error("nobody is told of a page")
	}
	if pages := s.take(); len(pages) != 1 || string(pages[0].Lines) != "a 1\n" || !utf8.ValidString(pages[0].Fault) {
		t.Errorf("pages %v", pages)
	}
	large := make([]byte, 1<<20)
	for range MaxUnsent/len(large) + 1 {
		s.Fetched(&metric.ScrapedPage{Target: 1, Result: "ok", Lines: large})
	}
	if n := len(s.take()); n != MaxUnsent/len(large) {
		t.Errorf("%d pages wait, want %d", n, MaxUnsent/len(large))
	}
	s.Fetched(&metric.ScrapedPage{Target: 1, Result: "ok", Lines: large})
	if n := len(s.take()); n != 1 {
		t.Errorf("%d pages wait afterwards, want 1", n)
	}
}

func TestLoopback(t *testing.T) {
	for server, want := range map[string]bool{"127.0.0.1:9097": true, "[::1]:9097": true, "localhost:9097": true, "a:1, 127.0.0.1:9097": true,
		"sluice-agents.sluice.svc:9097": false, "10.0.0.1:9097": false} {
		if got := (Config{Server: server}).Loopback(); got != want {
			t.Errorf("%s: %v, want %v", server, got, want)
		}
	}
}
