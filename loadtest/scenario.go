package loadtest

import (
	"context"
	"slices"
	"time"
)

// Scenario is either a load of StatsD lines, of which the cost is measured, or has a measure
// function with figures of its own.
type Scenario struct {
	Name string
	// About is a short description.
	About string
	// ShortAbout describes a short run, which has other sizes; empty: About.
	ShortAbout string

	// TakesRate: --rate sets the background load. A scenario of lines always takes it.
	TakesRate bool

	// measure does one run and returns its figures; nil in a scenario of lines, which the fields
	// below tell of.
	measure func(context.Context, *measurement) ([]Figure, error)

	// PerDatagram is how many lines every prepared datagram has. It is fixed, so that a number of
	// dropped datagrams is a number of lost lines.
	PerDatagram int
	// Lines is the default number of lines of a run: 5 to 10 s on a machine of 2025.
	Lines int
	// Rate is the default of lines per second; 0: flat out.
	Rate int
	// Seed makes the order of the series and the values: the same seed, the same bytes.
	Seed uint64
	// Sockets is how many sockets send in turn; 0: one.
	Sockets int
	// Client sends through github.com/cactus/go-statsd-client, one call per line, as an application
	// does.
	Client bool
	// Floors is how many times the blocking floor a line should cost at most; 0: nothing is said of
	// that.
	Floors float64
	// BytesPerSeries is what a series should take of the server's own memory; 0: nothing is said of
	// that.
	BytesPerSeries float64
	// ReadWithin is how soon after the first line the sums must have been read, where they are read
	// from a window; 0: any time.
	ReadWithin time.Duration

	series seriesSet
	// serverArgs are what the server is started with beside what it always is.
	serverArgs []string
}

// scenarios are all scenarios, the default first.
var scenarios = slices.Concat(lineScenarios, figureScenarios)

// Scenarios returns all scenarios.
func Scenarios() []Scenario { return slices.Clone(scenarios) }

// SendsLines reports whether the scenario is a load of lines.
func (s Scenario) SendsLines() bool { return s.measure == nil }

// Series is the number of series of a load of lines.
func (s Scenario) Series() int {
	if s.series == nil {
		return 0
	}
	return s.series.series()
}

// clientSeries are those of the scenario "client".
var clientSeries = newTaggedCounters(20, 5, 20, 5)

// The packings are what fits 1,432 bytes, the payload that StatsD clients keep to so that a
// datagram with its headers passes a network with an MTU of 1,500 and some tunnelling.
var lineScenarios = []Scenario{
	{
		Name: "tagged-10k", About: "counters of pods with three tags",
		PerDatagram: 24, Lines: 50_000_000, Seed: 1, Floors: 1.7,
		series: newTaggedCounters(20, 5, 20, 5),
	},
	{
		Name: "plain-10k", About: "counters without tags",
		PerDatagram: 52, Lines: 100_000_000, Seed: 2, Floors: 2.2,
		series: newPlainCounters(100, 100),
	},
	{
		Name: "timers-10k", About: "timers without tags",
		PerDatagram: 50, Lines: 50_000_000, Seed: 3, ReadWithin: windowEnds,
		series: newPlainTimers(100, 100),
	},
	{
		Name: "single-10k", About: "counters without tags, one line per datagram",
		PerDatagram: 1, Lines: 1_000_000, Rate: 200_000, Seed: 4, Floors: 0.7,
		series: newPlainCounters(100, 100),
	},
	{
		Name: "tagged-750k", About: "counters of pods with three tags",
		PerDatagram: 24, Lines: 50_000_000, Seed: 5, Floors: 3, BytesPerSeries: 400,
		series: newTaggedCounters(20, 5, 1500, 5),
	},
	{
		Name: "mixed-750k", About: "counters, gauges, timers and sets of pods, 12:4:7:1 in each datagram",
		PerDatagram: mixedLines, Lines: 30_000_000, Seed: 6, ReadWithin: windowEnds,
		series: newMixed(5, 1000),
	},
	{
		Name: "hot-key", About: "counter, from 32 sockets to 4",
		PerDatagram: 52, Lines: 50_000_000, Seed: 7, Sockets: 32,
		series: newPlainCounters(1, 1), serverArgs: []string{"--statsd-udp-sockets", "4"},
	},
	{
		Name: "client", About: "counters of pods with three tags, through go-statsd-client",
		PerDatagram: 24, Lines: 10_000_000, Seed: 8, Client: true,
		series: clientSeries,
	},
}

// windowEnds is the latest time to read a window of a minute: it then still holds the first lines.
const windowEnds = 50 * time.Second
