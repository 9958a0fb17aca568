package kind

import (
	"github.com/cespare/xxhash/v2"
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Behaviour is all that a table asks of a kind. A new kind implements it and gets a row in
// behaviours; a test over all kinds and stats fails while something is missing. Methods that end in
// Locked need the history lock of the series' block.
type Behaviour interface {
	// Coding is the coding of the history of the kind's number.
	Coding() window.Coding
	// check rejects samples that apply would reject, before a series is created for them.
	check(s *metric.Sample) metric.Reason
	// checkPreAggregated rejects running totals and histograms that ApplyPreAggregatedLocked would
	// reject.
	checkPreAggregated(s *metric.Sample) metric.Reason
	// Create makes the state of a new series, whose cell is zero.
	Create(e *Env, h Series)
	// apply adds a sample, without a lock.
	apply(a *Applier, h Series, s *metric.Sample) metric.Reason
	// ApplyDatedLocked adds a sample in an earlier tick.
	ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason
	// ApplyPreAggregatedLocked adds the growth of a running total, or a histogram, in a tick.
	ApplyPreAggregatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason
	// RecordLocked records in the history how the series stands at the end of a tick.
	RecordLocked(e *Env, h Series, tick uint32)
	// ShrinkLocked frees memory that the series no longer needs.
	ShrinkLocked(e *Env, h Series, now uint32)
	// Weigh accounts for the memory of a restored series.
	Weigh(e *Env, h Series)
	// Inherit adds the late samples of a removed series to its successor. It returns false if the
	// successor is full.
	Inherit(e *Env, from, to Series, at Remains) bool
	// TimestampLocked is the newest timestamp that came with the series' values, in Unix seconds;
	// 0: none did.
	TimestampLocked(h Series) int64

	// begin starts an evaluation.
	begin(r *Reader)
	// ReadLocked adds a series to the evaluation.
	ReadLocked(r *Reader, h Series)
	// value returns a stat of the series read, unless the stat is a sum over them.
	value(r *Reader) (v float64, ok bool)

	// SaveLocked appends the value and the history since a tick; records by units are appended
	// since another tick.
	SaveLocked(e *Env, dst []byte, h Series, since, sinceUnits uint32) []byte
	// Restore reads the output of SaveLocked, in this format and earlier ones.
	Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32)
	// RestoreNumber makes the newest entry of the restored history the value. Kinds without plain
	// numbers fail.
	RestoreNumber(d *blob.Decoder, h Series)
}

var behaviours = [...]Behaviour{
	metric.Counter: counterKind{},
	metric.Gauge:   gaugeKind{},
	metric.Timer:   timerKind{},
	metric.Set:     setKind{},
}

// Of returns the behaviour of a valid kind.
func Of(k metric.Kind) Behaviour { return behaviours[k] }

// CodingOf is the coding of a kind's history, or WholeCoding for a place that never had a series: a
// damaged delta may name one, and its bytes are skipped.
func CodingOf(k metric.Kind) window.Coding {
	if b := behaviours[k]; b != nil {
		return b.Coding()
	}
	return window.WholeCoding
}

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

// Remains describes a removed series at the moment of its removal.
type Remains struct {
	Whole int64 // what a counter held
	Units uint64
	Ended uint32 // tick
}

// Applier applies samples to series for one writer's goroutine.
type Applier struct {
	*Env
	Slot *memory.WriterSlot
	Now  window.Moment // as of the last batch boundary
	// Counted is the sum of all additions to counters.
	Counted Sum
	digest  xxhash.Digest
}

// Apply adds a sample to its series. The calls are direct: every sample that is parsed takes this
// path.
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

	// MissingReason explains why a timer has no value although samples came; empty: none came.
	MissingReason string
	// unmergeable is set when percentiles of several label sets were asked for that cannot be
	// merged.
	unmergeable bool
	// unsupportedStat is set when the kind does not read the stat, which is a bug.
	unsupportedStat bool

	window.Meter                // counts and weights in the window
	fractions    []window.Entry // scratch space

	rollup
}

// rollup is the sum of the series read so far.
type rollup struct {
	Series int           // how many
	total  metric.Number // of stats that add
	some   bool          // whether total holds anything
	// partial is set when a part of the total is unknown.
	partial      bool
	Distribution *distribution // timers
	// Of timers, how many are summaries, and the quantiles of one.
	summaries int
	quantiles []metric.Quantile
	members   *union     // sets
	gauges    gaugeStats // gauges over a window
}

// Begin starts with the next object.
func (r *Reader) Begin() {
	r.rollup = rollup{Distribution: r.Distribution, gauges: r.gauges}
	Of(r.Kind).begin(r)
}

// End returns scratch space.
func (r *Reader) End() {
	if r.Distribution != nil {
		distributions.Put(r.Distribution)
		r.Distribution = nil
	}
}

func (r *Reader) plus(n metric.Number) { r.total, r.some = r.total.Plus(n), true }

// Value returns the stat of all series read, or false if there is none, such as the mean of
// nothing.
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

// Refuse returns the error of an answer that would merge what cannot be merged, or of a stat that
// the kind does not read.
func (r *Reader) Refuse(q *metric.Query) error {
	if r.unsupportedStat {
		return metric.InvalidQueryf("%q: this version cannot evaluate %s of a %s", q.Expression.String(), r.Stat, r.Kind)
	}
	if !r.unmergeable {
		return nil
	}
	return metric.InvalidQueryf("%q: percentiles of summaries cannot be merged over label sets; pick one with a selector",
		q.Expression.String())
}

// Restorer reads the saved states of series.
type Restorer struct {
	*Env
	window.Reader
	SameWindows bool // the state was written with the same windows
}

// aheadUnit reports whether a unit is in the future.
func (r *Restorer) aheadUnit(span int, unit uint32) bool {
	return r.SameWindows && uint64(unit-1)*uint64(r.Spans[span].Stride) > uint64(r.Today)+window.ClockSlack
}
