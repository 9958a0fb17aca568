package loadtest

import (
	"context"
	"slices"
	"time"
)

// Scenario is either a load of StatsD lines (which series, in what lines, packed how), and then what a line
// costs is measured, or it has a way of its own of measuring figures of its own.
type Scenario struct {
	Name string
	// About says it in a few words.
	About string

	// measure does one run and returns its figures; nil in a scenario of lines, which the fields below tell of.
	measure func(context.Context, *measurement) ([]Figure, error)

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

// scenarios are all of them, the default first.
var scenarios = slices.Concat(lineScenarios, figureScenarios)

// Scenarios returns all scenarios.
func Scenarios() []Scenario { return slices.Clone(scenarios) }

// SendsLines is whether the scenario is a load of lines.
func (s Scenario) SendsLines() bool { return s.measure == nil }

// Series is how many series a load of lines has.
func (s Scenario) Series() int {
	if s.series == nil {
		return 0
	}
	return s.series.size()
}

// The packings are what fits 1,432 bytes, the payload that StatsD clients keep to so that a datagram with
// its headers passes a network with an MTU of 1,500 and some tunnelling.
var lineScenarios = []Scenario{
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
