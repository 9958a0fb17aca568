package loadtest

import "math/rand/v2"

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
