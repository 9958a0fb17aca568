package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Scenario is either a load of StatsD lines, which measures the cost of a line, or has a measure
// function with figures of its own.
type Scenario struct {
	Name string
	// About is a short description.
	About string
	// ShortAbout describes a short run, which has other sizes; empty: About.
	ShortAbout string

	// TakesRate reports whether --rate sets the background load. A scenario of lines always takes
	// --rate.
	TakesRate bool

	// measure performs one run and returns the figures. It is nil in a scenario of lines, which the
	// fields below describe.
	measure func(context.Context, *measurement) ([]Figure, error)

	// PerDatagram is the number of lines in every prepared datagram. It is fixed, so the number of
	// dropped datagrams tells the number of lost lines.
	PerDatagram int
	// Lines is the default number of lines of a run flat out: 5 to 10 s on a machine of 2025. A
	// paced run takes pacedSeconds.
	Lines int
	// Rate is the default load in lines per second; 0: flat out.
	Rate int
	// Seed seeds the order of the series and the values: the same seed makes the same bytes.
	Seed uint64
	// Sockets is the number of sockets that send in turn; 0: one.
	Sockets int
	// Client makes the sender use github.com/cactus/go-statsd-client, one call per line, as an
	// application does.
	Client bool
	// Aims are the aims for the cost of a line, by rate.
	Aims map[int]CostAims
	// BytesPerSeries is the aim for the server's anonymous memory per series; 0: no aim.
	BytesPerSeries float64
	// ReadWithin limits the time from the first line until the sums are read, if the sums are those
	// of a window; 0: no limit.
	ReadWithin time.Duration

	series seriesSet
	// serverArgs are additional arguments of the server.
	serverArgs []string
}

// CostAims are the aims for the cost of a line at one rate; 0: no aim.
type CostAims struct {
	// Floors is the most, as a multiple of the blocking floor.
	Floors float64
	// Cheaper is the least quotient of the cheapest peer's cost and the server's.
	Cheaper float64
	// CorePercent is the most CPU time, in percent of a processor.
	CorePercent float64
}

// scenarios are all scenarios, the default first.
var scenarios = slices.Concat(lineScenarios, figureScenarios)

// Scenarios returns all scenarios.
func Scenarios() []Scenario { return slices.Clone(scenarios) }

// SendsLines reports whether the scenario is a load of lines.
func (s Scenario) SendsLines() bool { return s.measure == nil }

// Series returns the number of series of a load of lines.
func (s Scenario) Series() int {
	if s.series == nil {
		return 0
	}
	return s.series.series()
}

// clientSeries are the series of the scenario "client".
var clientSeries = newTaggedCounters(20, 5, 20, 5)

// As many lines per datagram as fit into 1,432 bytes, the payload limit of StatsD clients. A
// datagram of that size passes a network with an MTU of 1,500 and some tunnelling.
var lineScenarios = []Scenario{
	{
		Name: "tagged-10k", About: "counters of pods with three tags",
		PerDatagram: 24, Lines: 50_000_000, Seed: 1,
		Aims:   map[int]CostAims{FlatOut: {Floors: 1.7, Cheaper: 11}, 400_000: {Floors: 2, Cheaper: 11}},
		series: newTaggedCounters(20, 5, 20, 5),
	},
	{
		Name: "plain-10k", About: "counters without tags",
		PerDatagram: 52, Lines: 100_000_000, Seed: 2,
		Aims: map[int]CostAims{
			FlatOut: {Floors: 2.2, Cheaper: 2.5}, 20_000: {CorePercent: 1}, 100_000: {Cheaper: 1}, 400_000: {Cheaper: 1},
		},
		series: newPlainCounters(100, 100),
	},
	{
		Name: "timers-10k", About: "timers without tags",
		PerDatagram: 50, Lines: 50_000_000, Seed: 3, ReadWithin: windowEnds,
		series: newPlainTimers(100, 100),
	},
	{
		Name: "single-10k", About: "counters without tags, one line per datagram",
		PerDatagram: 1, Lines: 2_000_000, Rate: 200_000, Seed: 4,
		Aims:   map[int]CostAims{200_000: {Floors: 0.7}, 20_000: {Floors: 1}},
		series: newPlainCounters(100, 100),
	},
	{
		Name: "tagged-750k", About: "counters of pods with three tags",
		PerDatagram: 24, Lines: 50_000_000, Seed: 5, BytesPerSeries: 400,
		Aims:   map[int]CostAims{FlatOut: {Floors: 3}, 400_000: {Floors: 4}},
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

// windowEnds is the latest time at which a window of a minute still contains the first lines.
const windowEnds = 50 * time.Second

// measurement performs all runs of one server in one scenario at one rate.
type measurement struct {
	Config
	scenario   Scenario
	rate       int   // of the load, in lines per second; without a load of lines 0: set by the scenario
	peer       *Peer // the server; nil: Sluice
	lines      int64 // of one run; 0 in a scenario without a load of lines
	processors processors
	machine    *Machine
	result     *Result
	prepared   func() *floodLoad // shared by all servers
	departures []string          // from the standard run, as flags
	title      string            // of the run
	lastStep   string
}

// processors are the processors that the server and the sender are pinned to.
type processors struct{ server, sender int }

// anyCPU leaves a process to the scheduler.
const anyCPU = -1

func (p processors) pinned() bool { return p.server != anyCPU }

// step reports the next step of the run.
func (m *measurement) step(what string) {
	if m.Progress == nil || what == m.lastStep {
		return
	}
	m.lastStep = what
	fmt.Fprintf(m.Progress, "%s: %s\n", m.title, what)
}

// note adds a remark on the figures, once for all runs.
func (m *measurement) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.result.Notes, text) {
		m.result.Notes = append(m.result.Notes, text)
	}
}

// interruption is the error of a scenario whose context was canceled.
type interruption struct {
	finished, of int
	besides      error // errors while the run was ended; nil: none
}

func (i *interruption) Error() string {
	text := fmt.Sprintf("interrupted: %d of %d runs were finished", i.finished, i.of)
	if i.besides != nil {
		text += "\n" + i.besides.Error()
	}
	return text
}

// Unwrap makes errors.Is(err, context.Canceled) true.
func (i *interruption) Unwrap() []error { return []error{context.Canceled, i.besides} }

// besidesTheEnd returns the part of an error that does not come from the end of the context.
func besidesTheEnd(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		var rest []error
		for _, one := range err.Unwrap() {
			rest = append(rest, besidesTheEnd(one))
		}
		return errors.Join(rest...)
	case interface{ Unwrap() error }:
		return besidesTheEnd(err.Unwrap())
	}
	return nil
}
