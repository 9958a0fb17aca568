package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/customkind"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// The guard of the hot path: what a line costs from its bytes to its place in the table, as wired,
// without sockets. It is held against finding the line ends of the same bytes in the same run, so
// that it says the same on a fast machine and on a slow one, and the minimum of many short rounds
// counts, so that other work does not. The bounds are twice what was measured: they are for what
// goes wrong by a factor.
var guarded = []struct {
	kind, line string
	most       float64 // times finding the line ends
}{
	{"counters", "http.requests.m%d:1|c|#namespace:ns%d,pod:web-%d,code:%d", 16},
	{"gauges", "queue.depth.m%d:7|g|#namespace:ns%d,pod:web-%d,code:%d", 16},
	{"timers", "http.latency.m%d:23|ms|#namespace:ns%d,pod:web-%d,code:%d", 18},
	{"sets", "http.users.m%d:9|s|#namespace:ns%d,pod:web-%d,code:%d", 17},
}

const (
	guardSeries  = 10_000
	guardPacket  = 24 // lines
	guardBatch   = 32 // packets between two batch boundaries
	guardRounds  = 400
	guardPackets = 128 // of a round
)

func TestHotPathDoesNotAllocate(t *testing.T) {
	for _, g := range guarded {
		path := newGuarded(t, g.line)
		if n := testing.AllocsPerRun(20, func() { path.apply(t, path.packets[:guardBatch]) }); n != 0 {
			t.Errorf("%s: %v allocations in %d lines: want none", g.kind, n, guardBatch*guardPacket)
		}
	}
}

func TestGuard(t *testing.T) {
	if os.Getenv("SLUICE_GUARD") == "" {
		t.Skip("takes times: make guard")
	}
	for _, g := range guarded {
		path := newGuarded(t, g.line)
		floor, cost := time.Hour, time.Hour
		for round := range guardRounds {
			packets := path.packets[round*guardPackets%(len(path.packets)-guardPackets):][:guardPackets]
			floor = min(floor, timed(func() { path.lineEnds(t, packets) }))
			cost = min(cost, timed(func() { path.apply(t, packets) }))
		}
		lines := float64(guardPackets * guardPacket)
		ratio := float64(cost) / float64(floor)
		t.Logf("%s: %.1f ns a line, %.2f for its end: %.1f times as much, %.0f allowed", g.kind, float64(cost)/lines, float64(floor)/lines, ratio, g.most)
		if ratio > g.most {
			t.Errorf("%s: a line costs %.1f times what finding its end does: want at most %.0f", g.kind, ratio, g.most)
		}
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// guardedPath is the way of a line, and the lines of every series, each of which the table has.
type guardedPath struct {
	scanner *statsd.Scanner
	writer  *aggregate.Writer
	lines   []metric.Line
	samples [8]metric.Sample
	parsed  int
	packets [][]byte
}

// newPath is a line's way into a table of its own, as a server sets it up.
func newPath(tb testing.TB) (*guardedPath, *aggregate.Table) {
	cfg := defaultConfig()
	cfg.standalone = true
	p := &dataPath{cfg: cfg, log: slog.New(slog.DiscardHandler), rules: new(customkind.Rulebook)}
	must(tb, p.makeTable(tb.Context()))
	scanner := statsd.NewScanner(statsd.Options{MaxLine: cfg.receiver.MaxLine, MaxTags: cfg.receiver.MaxTags})
	return &guardedPath{lines: make([]metric.Line, guardPacket), scanner: scanner, writer: p.table.NewWriter()}, p.table
}

func newGuarded(t *testing.T, line string) *guardedPath {
	path, _ := newPath(t)
	t.Cleanup(path.writer.Close)
	var packet []byte
	for i := range guardSeries {
		i = i * 7919 % guardSeries // in an order that no prefetching guesses
		packet = fmt.Appendf(packet, line, i%20, i/20%5, i/100%20, 200+i/2000)
		if bytes.Count(packet, []byte{'\n'}) == guardPacket-1 {
			path.packets = append(path.packets, packet)
			packet = nil
			continue
		}
		packet = append(packet, '\n')
	}
	path.apply(t, path.packets)
	path.parsed = 0
	path.apply(t, path.packets)
	if path.parsed != 0 {
		t.Fatalf("%d lines of known series were parsed", path.parsed)
	}
	return path
}

// apply takes packets as a receiver does: known lines as they stand, others parsed.
func (p *guardedPath) apply(t *testing.T, packets [][]byte) {
	for i, packet := range packets {
		lines := p.cut(t, packet)
		p.writer.LookupLines(lines)
		for at := p.writer.ApplyKnown(0); at < len(lines); at += p.writer.ApplyKnown(at) {
			n := max(p.writer.UnknownLines(at, len(p.samples)), 1)
			p.parse(t, at, lines[at:at+n])
			at += n
		}
		if i%guardBatch == 0 {
			p.writer.Quiesce()
		}
	}
}

func (p *guardedPath) cut(t *testing.T, packet []byte) []metric.Line {
	n := 0
	for rest, more := packet, true; more; n++ {
		var text []byte
		if text, rest, more = bytes.Cut(rest, []byte{'\n'}); !p.scanner.Cut(text, &p.lines[n]) {
			t.Fatalf("line %q was not cut", text)
		}
	}
	return p.lines[:n]
}

func (p *guardedPath) parse(t *testing.T, from int, lines []metric.Line) {
	p.parsed += len(lines)
	for i := range lines {
		p.scanner.Reset(lines[i].Text)
		if p.scanner.Next(); p.scanner.Fault.Reason != metric.Applied {
			t.Fatalf("line %q was not parsed", lines[i].Text)
		}
		p.samples[i] = p.scanner.Sample
		p.samples[i].Line = &lines[i]
	}
	p.writer.PrefetchNew(from, p.samples[:len(lines)])
	for i := range lines {
		if p.writer.Apply(&p.samples[i]) != metric.Applied {
			t.Fatalf("line %q was not applied", lines[i].Text)
		}
	}
}

func (p *guardedPath) lineEnds(t *testing.T, packets [][]byte) {
	lines := 0
	for _, packet := range packets {
		for at := 0; ; lines++ {
			end := bytes.IndexByte(packet[at:], '\n')
			if end < 0 {
				lines++
				break
			}
			at += end + 1
		}
	}
	if lines != len(packets)*guardPacket {
		t.Fatalf("%d lines: want %d", lines, len(packets)*guardPacket)
	}
}
