package loadtest

import "math/rand/v2"

const (
	// maxDatagram is the payload that StatsD clients keep to.
	maxDatagram = 1432
	// preparedLines and preparedDatagrams are how many are prepared; sending goes round them. Of
	// many series there are more, so that six in seven of them are in a round.
	preparedLines     = 240_000
	preparedDatagrams = 40_000
	preparedRounds    = 2
)

// datagrams are prepared payloads: lines separated by '\n', without one at the end, as clients
// send them.
type datagrams struct {
	packets [][]byte
	lines   []int // of each packet
}

// warmUp is every line once, in random order. The last datagram may have fewer lines.
func (s Scenario) warmUp() datagrams {
	random := s.random(0)
	order := random.Perm(s.series.size())
	return s.pack(len(order), random, func(i int) int { return order[i] })
}

// load is random lines in datagrams of exactly PerDatagram lines.
func (s Scenario) load() datagrams {
	random := s.random(1)
	lines := max(preparedLines, preparedRounds*s.series.size())
	n := min(lines/s.PerDatagram, max(preparedDatagrams, preparedRounds*s.series.size()/s.PerDatagram)) * s.PerDatagram
	return s.pack(n, random, func(n int) int { return s.series.draw(int64(n), random) })
}

func (s Scenario) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, stream)) }

// pack makes datagrams of n lines; drawn picks the series of each.
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
