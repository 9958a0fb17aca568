package loadtest

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// maxDatagram is the largest payload that StatsD clients send.
	maxDatagram = 1432
	// preparedLines and preparedDatagrams limit the prepared datagrams, which the sender repeats. A
	// load of many series has more: preparedRounds lines per series, so that six in seven series
	// occur in them.
	preparedLines     = 240_000
	preparedDatagrams = 40_000
	preparedRounds    = 2
)

// datagrams are prepared payloads: lines separated by '\n', without a '\n' at the end, as clients
// send them.
type datagrams struct {
	packets [][]byte
	lines   []int // of each packet
}

// warmUp returns every line once, in random order. The last datagram may have fewer lines.
func (s Scenario) warmUp() datagrams {
	random := s.random(0)
	order := random.Perm(s.series.size())
	return s.pack(len(order), random, func(i int) int { return order[i] })
}

// load returns random lines in datagrams of exactly PerDatagram lines.
func (s Scenario) load() datagrams {
	random := s.random(1)
	lines := max(preparedLines, preparedRounds*s.series.size())
	n := min(lines/s.PerDatagram, max(preparedDatagrams, preparedRounds*s.series.size()/s.PerDatagram)) * s.PerDatagram
	return s.pack(n, random, func(n int) int { return s.series.draw(int64(n), random) })
}

func (s Scenario) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, stream)) }

// pack makes datagrams of n lines; drawn picks the series of each line.
func (s Scenario) pack(n int, random *rand.Rand, drawn func(line int) int) datagrams {
	var d datagrams
	var memory []byte
	var ends []int
	for at := 0; at < n; {
		end := min(at+s.PerDatagram, n)
		d.lines = append(d.lines, end-at)
		for first := at; at < end; at++ {
			if at > first {
				memory = append(memory, '\n')
			}
			memory = s.series.appendLine(memory, drawn(at), random)
		}
		ends = append(ends, len(memory))
	}
	start := 0
	for _, end := range ends {
		d.packets = append(d.packets, memory[start:end:end])
		start = end
	}
	return d
}

// packing counts datagrams by the number of lines in each.
type packing map[int]int64

func (p packing) add(lines int, datagrams int64) { p[lines] += datagrams }

// lines returns the number of lines in all datagrams.
func (p packing) lines() (sum int64) {
	for lines, datagrams := range p {
		sum += int64(lines) * datagrams
	}
	return sum
}

// lost returns the least and the most lines that a number of dropped datagrams had. Both are equal
// if all datagrams have the same number of lines.
func (p packing) lost(dropped int64) (least, limit int64) {
	sizes := slices.Sorted(maps.Keys(p))
	least = p.first(dropped, sizes)
	slices.Reverse(sizes)
	return least, p.first(dropped, sizes)
}

func (p packing) first(dropped int64, sizes []int) (lines int64) {
	for _, size := range sizes {
		n := min(dropped, p[size])
		lines += n * int64(size)
		dropped -= n
	}
	return lines
}

// pace limits a sender to a number of lines per second; 0: no limit.
type pace struct {
	perSecond int
	start     time.Time
}

func newPace(perSecond int) *pace { return &pace{perSecond: perSecond, start: time.Now()} }

// mostLate bounds the delay that a sender makes up for. A longer burst would exceed the pace, and
// the drops would be the sender's fault.
const mostLate = 20 * time.Millisecond

// heldPace is the share of a rate that a sender must reach; below it, the figures are those of
// another rate.
const heldPace = 0.98

// after sleeps until a number of lines is due. It returns early, with the reason, when ctx ends.
func (p *pace) after(ctx context.Context, lines int64) error {
	if p.perSecond == 0 {
		return ctx.Err()
	}
	due := p.start.Add(time.Duration(float64(lines) / float64(p.perSecond) * float64(time.Second)))
	wait := time.Until(due)
	if wait > 0 {
		return rest(ctx, wait)
	}
	if late := -wait - mostLate; late > 0 {
		p.start = p.start.Add(late)
	}
	return ctx.Err()
}

// burst returns the number of datagrams between two reads of the clock: those of a millisecond,
// limited to those of a system call.
func (p *pace) burst(perDatagram int) int {
	if p.perSecond == 0 {
		return maxBurst
	}
	return min(max(p.perSecond/1000/perDatagram, 1), maxBurst)
}

const maxBurst = 64

// rest sleeps for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
