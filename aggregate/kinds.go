package aggregate

import (
	"github.com/cespare/xxhash/v2"
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// behaviour is all that a table asks of a kind. A new kind implements it and gets a row in behaviours; a test over all kinds and stats
// names what is missing. Methods that end in Locked need the history lock of the series' block.
type behaviour interface {
	// coding is how the history of the kind's number is coded.
	coding() window.Coding
	// check rejects a sample that apply would reject, before a series is created for it.
	check(s *metric.Sample) metric.Reason
	// checkPreAggregated rejects a running total or histogram that applyPreAggregatedLocked would reject.
	checkPreAggregated(s *metric.Sample) metric.Reason
	// create makes the state of a new series; the cell is zero.
	create(e *env, h handle)
	// apply adds a sample, without a lock.
	apply(a *applier, h handle, s *metric.Sample) metric.Reason
	// applyDatedLocked adds a sample in an earlier tick.
	applyDatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason
	// applyPreAggregatedLocked adds the growth of a running total, or a histogram, in a tick.
	applyPreAggregatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason
	// recordLocked records in the history what came until the end of a tick.
	recordLocked(e *env, h handle, tick uint32)
	// shrinkLocked gives back memory that the series does not need.
	shrinkLocked(e *env, h handle, now uint32)
	// weigh enters the memory of a restored series.
	weigh(e *env, h handle)
	// inherit adds what a removed series got after its removal to the series that succeeds it. False: that is full.
	inherit(e *env, from, to handle, at remains) bool
	// timestampLocked is the newest timestamp that came with the series' values, in Unix seconds; 0: none did.
	timestampLocked(h handle) int64

	// begin starts an evaluation.
	begin(r *reader)
	// readLocked adds a series to the evaluation.
	readLocked(r *reader, h handle)
	// value is a stat of the series that were read, where it is no sum over them.
	value(r *reader) (v float64, ok bool)

	// saveLocked appends the value and what was recorded since a tick; of what is kept by units, since another tick.
	saveLocked(e *env, dst []byte, h handle, since, sinceUnits uint32) []byte
	// restore reads what saveLocked appended, in this format and earlier ones.
	restore(r *restoring, d *blob.Decoder, h handle, stamp uint32)
	// restoreNumber makes the newest entry of the restored history the value. Kinds without plain numbers fail.
	restoreNumber(d *blob.Decoder, h handle)
}

var behaviours = [...]behaviour{
	metric.Counter: counterKind{},
	metric.Gauge:   gaugeKind{},
	metric.Timer:   timerKind{},
	metric.Set:     setKind{},
}

// behaviourOf is the behaviour of a valid kind.
func behaviourOf(k metric.Kind) behaviour { return behaviours[k] }

// check rejects a sample that cannot be applied, before a series is created for it.
func check(s *metric.Sample) metric.Reason {
	if int(s.Kind) >= len(behaviours) || behaviours[s.Kind] == nil {
		return metric.Malformed
	}
	if s.Op.PreAggregated() {
		return behaviourOf(s.Kind).checkPreAggregated(s)
	}
	return behaviourOf(s.Kind).check(s)
}

// remains is a removed series as it was when it was removed.
type remains struct {
	whole int64 // what a counter held
	units uint64
	ended uint32 // tick
}

// applier is what a writer's goroutine needs to add samples to series.
type applier struct {
	*env
	slot *memory.WriterSlot
	now  window.Moment // as of the last batch boundary
	// counted is what was added to counters.
	counted sum
	digest  xxhash.Digest
}

// apply adds a sample to its series. The calls are direct: this is the path of every sample that is parsed.
func (a *applier) apply(h handle, s *metric.Sample) metric.Reason {
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

// reader evaluates one stat of one object after the other.
type reader struct {
	*env
	kind metric.Kind // of the object in hand
	stat metric.Stat
	view window.View

	// lacks says why a timer has no value although something came; empty: nothing came.
	lacks string
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
	series int           // how many
	total  metric.Number // of stats that add
	some   bool          // whether total holds anything
	// partial is set where a part of the total is not known.
	partial bool
	spread  *distribution // timers
	// Of timers, how many are summaries, and the quantiles of one.
	summaries int
	quantiles []metric.Quantile
	members   *union // sets
	levels    levels // gauges over a window
}

// begin starts with the next object.
func (r *reader) begin() {
	r.rollup = rollup{spread: r.spread, levels: r.levels}
	behaviourOf(r.kind).begin(r)
}

// end gives scratch space back.
func (r *reader) end() {
	if r.spread != nil {
		distributions.Put(r.spread)
		r.spread = nil
	}
}

func (r *reader) plus(n metric.Number) { r.total, r.some = r.total.Plus(n), true }

// value is the stat of all that was read. False: there is none, such as the mean of nothing.
func (r *reader) value() (metric.Number, bool) {
	switch {
	case r.series == 0, r.partial:
		return metric.Number{}, false
	case r.some:
		return r.total, true
	}
	v, ok := behaviourOf(r.kind).value(r)
	return metric.Computed(v), ok
}

// refuse is the error of an answer that would merge what cannot be merged, or of a stat that the kind does not read.
func (r *reader) refuse(q *metric.Query) error {
	if r.unread {
		return metric.InvalidQueryf("%q: this version cannot read %s of a %s", q.Expression.String(), r.stat, r.kind)
	}
	if !r.unmergeable {
		return nil
	}
	return metric.InvalidQueryf("%q: percentiles of summaries cannot be merged over label sets; pick one with a selector",
		q.Expression.String())
}

// restoring reads the states of series.
type restoring struct {
	*env
	window.Reader
	windows bool // the windows are those that it was written with
}

// aheadUnit reports whether a unit has not come yet.
func (r *restoring) aheadUnit(span int, unit uint32) bool {
	return r.windows && uint64(unit-1)*uint64(r.spans[span].Stride) > uint64(r.Today)+window.ClockSlack
}
