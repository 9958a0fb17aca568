package kind

import (
	"github.com/cespare/xxhash/v2"
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Behaviour is all that a table asks of a kind. A new kind implements it and gets a row in behaviours; a test over all kinds and stats
// names what is missing. Methods that end in Locked need the history lock of the series' block.
type Behaviour interface {
	// Coding is how the history of the kind's number is coded.
	Coding() window.Coding
	// check rejects a sample that apply would reject, before a series is created for it.
	check(s *metric.Sample) metric.Reason
	// checkPreAggregated rejects a running total or histogram that applyPreAggregatedLocked would reject.
	checkPreAggregated(s *metric.Sample) metric.Reason
	// Create makes the state of a new series; the cell is zero.
	Create(e *Env, h Series)
	// apply adds a sample, without a lock.
	apply(a *Applier, h Series, s *metric.Sample) metric.Reason
	// ApplyDatedLocked adds a sample in an earlier tick.
	ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason
	// ApplyPreAggregatedLocked adds the growth of a running total, or a histogram, in a tick.
	ApplyPreAggregatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason
	// RecordLocked records in the history what came until the end of a tick.
	RecordLocked(e *Env, h Series, tick uint32)
	// ShrinkLocked gives back memory that the series does not need.
	ShrinkLocked(e *Env, h Series, now uint32)
	// Weigh enters the memory of a restored series.
	Weigh(e *Env, h Series)
	// Inherit adds what a removed series got after its removal to the series that succeeds it. False: that is full.
	Inherit(e *Env, from, to Series, at Remains) bool
	// TimestampLocked is the newest timestamp that came with the series' values, in Unix seconds; 0: none did.
	TimestampLocked(h Series) int64

	// begin starts an evaluation.
	begin(r *Reader)
	// ReadLocked adds a series to the evaluation.
	ReadLocked(r *Reader, h Series)
	// value is a stat of the series that were read, where it is no sum over them.
	value(r *Reader) (v float64, ok bool)

	// SaveLocked appends the value and what was recorded since a tick; of what is kept by units, since another tick.
	SaveLocked(e *Env, dst []byte, h Series, since, sinceUnits uint32) []byte
	// Restore reads what saveLocked appended, in this format and earlier ones.
	Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32)
	// RestoreNumber makes the newest entry of the restored history the value. Kinds without plain numbers fail.
	RestoreNumber(d *blob.Decoder, h Series)
}

var behaviours = [...]Behaviour{
	metric.Counter: counterKind{},
	metric.Gauge:   gaugeKind{},
	metric.Timer:   timerKind{},
	metric.Set:     setKind{},
}

// Of is the behaviour of a valid kind.
func Of(k metric.Kind) Behaviour { return behaviours[k] }

// Check rejects a sample that cannot be applied, before a series is created for it.
func Check(s *metric.Sample) metric.Reason {
	if int(s.Kind) >= len(behaviours) || behaviours[s.Kind] == nil {
		return metric.Malformed
	}
	if s.Op.PreAggregated() {
		return Of(s.Kind).checkPreAggregated(s)
	}
	return Of(s.Kind).check(s)
}

// Remains is a removed series as it was when it was removed.
type Remains struct {
	Whole int64 // what a counter held
	Units uint64
	Ended uint32 // tick
}

// Applier is what a writer's goroutine needs to add samples to series.
type Applier struct {
	*Env
	Slot *memory.WriterSlot
	Now  window.Moment // as of the last batch boundary
	// Counted is what was added to counters.
	Counted Sum
	digest  xxhash.Digest
}

// Apply adds a sample to its series. The calls are direct: this is the path of every sample that is parsed.
func (a *Applier) Apply(h Series, s *metric.Sample) metric.Reason {
	switch s.Kind {
	case metric.Counter:
		return counterKind{}.apply(a, h, s)
	case metric.Gauge:
		return gaugeKind{}.apply(a, h, s)
	case metric.Timer:
		return timerKind{}.apply(a, h, s)
	}
	return setKind{}.apply(a, h, s)
}

// Reader evaluates one stat of one object after the other.
type Reader struct {
	*Env
	Kind metric.Kind // of the object in hand
	Stat metric.Stat
	View window.View

	// Lacks says why a timer has no value although something came; empty: nothing came.
	Lacks string
	// unmergeable is set where percentiles of several label sets were asked for that cannot be merged.
	unmergeable bool
	// unread is set where the kind does not read the stat: a fault of the program's.
	unread bool

	window.Meter                // counts and weights in the window
	fractions    []window.Entry // scratch space

	rollup
}

// rollup is what the series read so far come to.
type rollup struct {
	Series int           // how many
	total  metric.Number // of stats that add
	some   bool          // whether total holds anything
	// partial is set where a part of the total is not known.
	partial bool
	Spread  *distribution // timers
	// Of timers, how many are summaries, and the quantiles of one.
	summaries int
	quantiles []metric.Quantile
	members   *union // sets
	levels    levels // gauges over a window
}

// Begin starts with the next object.
func (r *Reader) Begin() {
	r.rollup = rollup{Spread: r.Spread, levels: r.levels}
	Of(r.Kind).begin(r)
}

// End gives scratch space back.
func (r *Reader) End() {
	if r.Spread != nil {
		distributions.Put(r.Spread)
		r.Spread = nil
	}
}

func (r *Reader) plus(n metric.Number) { r.total, r.some = r.total.Plus(n), true }

// Value is the stat of all that was read. False: there is none, such as the mean of nothing.
func (r *Reader) Value() (metric.Number, bool) {
	switch {
	case r.Series == 0, r.partial:
		return metric.Number{}, false
	case r.some:
		return r.total, true
	}
	v, ok := Of(r.Kind).value(r)
	return metric.Computed(v), ok
}

// Refuse is the error of an answer that would merge what cannot be merged, or of a stat that the kind does not read.
func (r *Reader) Refuse(q *metric.Query) error {
	if r.unread {
		return metric.InvalidQueryf("%q: this version cannot read %s of a %s", q.Expression.String(), r.Stat, r.Kind)
	}
	if !r.unmergeable {
		return nil
	}
	return metric.InvalidQueryf("%q: percentiles of summaries cannot be merged over label sets; pick one with a selector",
		q.Expression.String())
}

// Restorer reads the states of series.
type Restorer struct {
	*Env
	window.Reader
	SameWindows bool // the windows are those that it was written with
}

// aheadUnit reports whether a unit has not come yet.
func (r *Restorer) aheadUnit(span int, unit uint32) bool {
	return r.SameWindows && uint64(unit-1)*uint64(r.Spans[span].Stride) > uint64(r.Today)+window.ClockSlack
}
