package kind

import (
	"math"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Behaviour is the interface through which a table uses a kind. A new kind implements it and gets a
// row in behaviours; tests over all kinds and stats fail while a part is missing. Methods that end
// in Locked need the history lock of the series' block.
type Behaviour interface {
	// Coding returns the encoding of the series' history.
	Coding() window.Coding
	// check rejects samples that apply would reject, before a series is created for them.
	check(s *metric.Sample) metric.Reason
	// checkPreAggregated rejects running totals and histograms that ApplyPreAggregatedLocked would
	// reject.
	checkPreAggregated(s *metric.Sample) metric.Reason
	// Create initializes the state of a new series, whose cell is zero.
	Create(e *Env, h Series)
	// apply adds a sample, without a lock.
	apply(a *Applier, h Series, s *metric.Sample) metric.Reason
	// ApplyDatedLocked adds a sample to an earlier tick.
	ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason
	// ApplyPreAggregatedLocked adds the growth of a running total or histogram to a tick.
	ApplyPreAggregatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason
	// RecordLocked records the state of the series at the end of a tick in its history.
	RecordLocked(e *Env, h Series, tick uint32)
	// ShrinkLocked frees memory that the series no longer needs.
	ShrinkLocked(e *Env, h Series, now uint32)
	// Weigh accounts for the memory of a restored series.
	Weigh(e *Env, h Series)
	// Inherit adds the late samples of a removed series to its successor. It returns false if the
	// successor cannot take them.
	Inherit(e *Env, from, to Series, at Remains) bool
	// DateLocked returns the newest date that clients sent with the series' samples, in Unix
	// nanoseconds, or 0 if they sent none.
	DateLocked(h Series) int64

	// begin starts an evaluation.
	begin(r *Reader)
	// ReadLocked adds a series to the evaluation.
	ReadLocked(r *Reader, h Series)
	// readTwinLocked adds one of several origins' parts of a series to the evaluation, in the order
	// of their newest samples. endTwins follows after all of them.
	readTwinLocked(r *Reader, h Series, course *window.Course)
	endTwins(r *Reader)
	// value computes a stat that is not a sum over the series, after all of them were read.
	value(r *Reader) (v float64, ok bool)

	// SaveLocked appends the value and the history from tick since on, and records by units from
	// tick sinceUnits on. since > 0: to a delta, which has older units that changed as well.
	SaveLocked(e *Env, dst []byte, h Series, since, sinceUnits uint32) []byte
	// Restore reads the output of SaveLocked, in the current format and earlier ones.
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

// Of returns the behaviour of a kind, which must be valid.
func Of(k metric.Kind) Behaviour { return behaviours[k] }

// CodingOf returns the encoding of a kind's history. For the zero kind it returns WholeCoding: a
// damaged delta may name a place that never had a series, and the bytes of that place are skipped.
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
	Whole int64  // whole units of a counter
	Units uint64 // its fraction, in billionths
	Ended uint32 // tick of the removal
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

// Apply adds a sample to its series. Every parsed sample takes this path, so the calls are direct
// instead of through Behaviour.
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

// Reader evaluates a stat for one object at a time.
type Reader struct {
	*Env
	Kind metric.Kind // of the series of the current object
	Stat metric.Stat
	View window.View
	Rank int // of the origin that is read, among all origins' names

	// WithBuckets makes timers add the totals of their buckets.
	WithBuckets bool
	// WithStart makes NoteStartLocked note when the series began.
	WithStart bool

	// MissingReason explains why a timer with samples lacks a value. It is empty if there are no
	// samples.
	MissingReason string
	// unmergeable is set if a query asks for percentiles of several summaries.
	unmergeable bool
	// unsupportedStat is set if the kind cannot evaluate the stat, which is a bug.
	unsupportedStat bool

	window.Meter                // reads increases of counts and weights
	fractions    []window.Entry // scratch space for countLocked
	twins        *twins         // nil: no series has twins

	gathered
}

// gathered is what the series read so far come to.
type gathered struct {
	Series int           // number of series
	total  metric.Number // of additive stats; of a rate, the count
	some   bool          // whether total holds anything
	span   float64       // of a rate: the longest span of the series, in seconds
	over   float64       // of a rate: the divisor of total, in seconds: of several series, span
	rates  metric.Number // of a rate: those of the objects before, in a roll-up of objects
	// partial is set if a part of the total is unknown.
	partial      bool
	Distribution *distribution     // timers
	summaries    int               // number of timers with pushed quantiles
	quantiles    []metric.Quantile // of the last such timer
	observed     float64           // observations of timers since their births
	sum          float64           // of these observations; NaN: unknown
	buckets      bucketTotals      // of timers, if WithBuckets is set
	created      uint32            // the earliest birth, in Unix seconds, if WithStart is set; 0: unknown
	restarted    int64             // the newest start that clients sent with running totals, in Unix nanoseconds; 0: none
	fell         bool              // a counter has fallen
	members      unions            // sets
	gauges       gaugeStats        // gauges over a window
}

// Begin starts the evaluation of the next object.
func (r *Reader) Begin() {
	r.gathered = gathered{Distribution: r.Distribution, buckets: r.buckets, gauges: r.gauges, members: r.members}
	Of(r.Kind).begin(r)
}

// End releases scratch space.
func (r *Reader) End() {
	if r.Distribution != nil {
		distributions.Put(r.Distribution)
		r.Distribution = nil
	}
}

func (r *Reader) plus(n metric.Number) { r.total, r.some = r.total.Plus(n), true }

// plusRate adds a series to a rate. The label sets of an object have one divisor, the longest span of them:
// before a label set existed, the object's samples had others. The count of a single label set isn't
// scaled, so all replicas compute the same bits.
func (r *Reader) plusRate(count metric.Number, s *window.Stretch) {
	if r.span == 0 {
		r.plus(count)
		r.span, r.over = s.Span, s.Seconds
		return
	}
	r.total = scaled(r.total, r.over, r.span)
	r.plus(scaled(count, s.Seconds, s.Span))
	r.span = max(r.span, s.Span)
	r.over = r.span
}

// scaled is a count over other seconds.
func scaled(count metric.Number, from, to float64) metric.Number {
	if from == to {
		return count
	}
	return metric.Computed(count.Float64() * to / from)
}

// Span is the longest part of the window in which a series read has existed, in seconds.
func (r *Reader) Span() float64 { return r.span }

// EndObject ends the series of one object in a roll-up of several. The objects' rates add up: one that
// began later had no samples before, whatever the others had.
func (r *Reader) EndObject() {
	if r.Stat == metric.Rate && r.some {
		r.rates, r.total, r.span, r.over = r.rate(), metric.Number{}, 0, 0
	}
}

// rate is the rate of all series read.
func (r *Reader) rate() metric.Number {
	if r.span == 0 {
		return r.rates
	}
	return r.rates.Plus(metric.Computed(r.total.Float64() / r.over))
}

// Value returns the stat of all series read, or false if it has no value, such as the mean of no
// observations.
func (r *Reader) Value() (metric.Number, bool) {
	switch {
	case r.Series == 0, r.partial:
		return metric.Number{}, false
	case r.some && r.Stat == metric.Rate:
		return r.rate(), true
	case r.some:
		return r.total, true
	}
	v, ok := Of(r.Kind).value(r)
	return metric.Computed(v), ok
}

// Partial reports whether a part of the total of the series read is unknown.
func (r *Reader) Partial() bool { return r.partial }

// QueryError returns an error if the query asks for unmergeable percentiles or an unsupported stat.
func (r *Reader) QueryError(q *metric.Query) error {
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
	SameWindows bool // the state was written with the current windows
}

// aheadUnit reports whether a unit of a span is in the future, beyond the slack of the clock.
func (r *Restorer) aheadUnit(span int, unit uint32) bool {
	return r.SameWindows && uint64(unit-1)*uint64(r.Spans[span].Stride) > uint64(r.Today)+window.ClockSlack
}

// Cell is the part of a series that samples update: 32 bytes without a pointer. Writers update
// Value with atomics. History belongs to the holder of the history lock.
//
// Value depends on the kind:
//   - counter: whole units, an int64; fractions are in the body (counter_saved.go)
//   - gauge: the bits of the float64 that equals the value exactly (metric.Number.AsFloat), or one
//     of the marks below
//   - timer: the number of the live part and of the hot half (timer_live.go)
//   - set: unused
type Cell struct {
	Value   atomic.Uint64
	History window.History
	Seen    atomic.Uint32 // window.LifeStamp of the last touch; written under the history lock
	// State is generation<<1 | live, in 31 bits. Storing it publishes the series. The generation
	// distinguishes a series from later ones in the same place.
	State atomic.Uint32
}

// See stamps the cell. A stamp never decreases, even if a late caller has an older reading of the
// clock.
func (c *Cell) See(now window.Moment) { c.Seen.Store(max(c.Seen.Load(), now.Stamp())) }

const (
	Live      = 1
	StateBits = 1<<31 - 1
)

// Marks in place of a gauge's value. They are NaNs, which no client can push: NaN is rejected.
const (
	GaugeUnset = 0x7ff8_5155_1ce0_0001 // created, no value yet
	GaugeMoved = 0x7ff8_5155_1ce0_0002 // the value is in the body for good (gauge_stamped.go)
)

// Add adds whole units. It undoes an addition beyond maxTotal and returns false. No total ever
// wraps, because concurrent additions are far smaller than the rest of an int64.
func (c *Cell) Add(whole int64) bool {
	if total := int64(c.Value.Add(uint64(whole))); total > maxTotal || total < -maxTotal {
		c.Value.Add(-uint64(whole))
		return false
	}
	return true
}

const maxTotal = 1 << 62

// finite clamps sums of gauge deltas and timers to finite numbers, because the API cannot serve
// infinities.
func finite(v float64) float64 {
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}
