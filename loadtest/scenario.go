package loadtest

import "time"

// Scenario is a load: which series, in what lines, packed how.
type Scenario struct {
	Name string
	// About says it in a few words.
	About string
	// PerDatagram is how many lines every prepared datagram has. It is fixed, so that a number of dropped
	// datagrams is a number of lost lines.
	PerDatagram int
	// Lines of a run if nobody says otherwise: some 5 to 15 s at the speed of the machines of 2025.
	Lines int
	// Seed makes the order of the series and the values: the same seed, the same bytes.
	Seed uint64
	// ReadWithin is how soon after the first line the sums must have been read, where they are read from a
	// window; 0: any time.
	ReadWithin time.Duration

	series seriesSet
}

// Scenarios returns all scenarios.
func Scenarios() []Scenario { return append([]Scenario(nil), scenarios...) }

// Series is how many series the scenario has.
func (s Scenario) Series() int { return s.series.size() }

// The packings are what fits 1,432 bytes, the payload that StatsD clients keep to so that a datagram with
// its headers passes a network with an MTU of 1,500 and some tunnelling.
var scenarios = []Scenario{
	{
		Name: "tagged-10k", About: "counters of pods with three tags",
		PerDatagram: 24, Lines: 100_000_000, Seed: 1,
		series: taggedCounters{metrics: 20, namespaces: 5, pods: 20, codes: 5},
	},
	{
		Name: "plain-10k", About: "counters without tags",
		PerDatagram: 52, Lines: 200_000_000, Seed: 2,
		series: plainCounters{metrics: 100, hosts: 100},
	},
	{
		Name: "timers-10k", About: "timers without tags",
		PerDatagram: 50, Lines: 100_000_000, Seed: 3, ReadWithin: 50 * time.Second,
		series: plainTimers{metrics: 100, hosts: 100},
	},
	{
		Name: "single-10k", About: "counters without tags, one line a datagram",
		PerDatagram: 1, Lines: 5_000_000, Seed: 4,
		series: plainCounters{metrics: 100, hosts: 100},
	},
}
