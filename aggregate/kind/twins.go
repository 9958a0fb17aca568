package kind

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Twins are the same series at several origins. Each origin has counted its own samples, so the
// series is what they counted together. It is read as one series, before the roll-up over an
// object's label sets.

// twins gathers one series of several origins.
type twins struct {
	number window.Joined
	levels []level // of a gauge over the window
	gauges []GaugePart
	totals []TotalPart
}

// level is a gauge's value from a position on.
type level struct{ at, value float64 }

// SetTable makes the reader read from another table. now is the table's time, and offset the ticks
// by which the clock of the first table is ahead.
func (r *Reader) SetTable(e *Env, view window.View, now window.Moment, offset float64) {
	r.Env, r.View, r.gauges.offset = e, view, offset
	r.Meter.Logs, r.Meter.Clock, r.Now = e.Logs, e.Clock, now
}

// BeginTwins starts the next series with twins.
func (r *Reader) BeginTwins() {
	if r.twins == nil {
		r.twins = new(twins)
	}
	t := r.twins
	t.number.Begin()
	t.levels, t.gauges, t.totals = t.levels[:0], t.gauges[:0], t.totals[:0]
	if r.Kind == metric.Timer && r.Stat == metric.Sum {
		r.Distribution.reset()
	}
}

// ReadTwinLocked adds a series of one origin. The origin with the newest sample comes last.
func (r *Reader) ReadTwinLocked(h Series, course *window.Course) {
	Of(r.Kind).readTwinLocked(r, h, course)
}

// EndTwins adds the series to the evaluation.
func (r *Reader) EndTwins() { Of(r.Kind).endTwins(r) }

func (c counterKind) readTwinLocked(r *Reader, h Series, course *window.Course) {
	if r.Stat == metric.Total {
		r.twins.totals = append(r.twins.totals, TotalPartLocked(h, r.Now.Epoch.UnixMilli()))
		return
	}
	n := &r.twins.number
	n.Origin(course, *h.Born)
	r.Entries = h.Cell.History.Read(r.Env.Logs, window.WholeCoding, r.Entries[:0])
	if len(r.Entries) == 0 {
		return
	}
	before := r.Env.Logs.Before(r.Entries[0], *h.Born)
	n.Add(r.Entries, h.singles(r.Env.Logs), before,
		func(from, to uint64) metric.Number { return metric.Int(int64(to - from)) })
	if fractions, before := r.fractionsLocked(h); fractions != nil {
		n.AddPart(fractions, before, func(from, to uint64) metric.Number { return metric.Decimal(0, int64(to-from)) })
	}
}

func (counterKind) endTwins(r *Reader) {
	if r.Stat == metric.Total {
		r.plus(MergeTotals(r.twins.totals))
		return
	}
	count, s := r.twins.number.Increase(&r.Meter, r.Stat == metric.Count)
	switch r.Stat {
	case metric.Count:
		r.plus(count)
	case metric.Rate:
		r.plusRate(count, &s)
	default:
		r.unsupportedStat = true
	}
}

func (k timerKind) readTwinLocked(r *Reader, h Series, course *window.Course) {
	if !r.Stat.Additive() {
		k.ReadLocked(r, h)
		return
	}
	n := &r.twins.number
	n.Origin(course, *h.Born)
	r.Entries = h.Cell.History.Read(r.Env.Logs, window.WeightCoding, r.Entries[:0])
	if len(r.Entries) > 0 {
		before := r.Env.Logs.Before(r.Entries[0], *h.Born)
		n.Add(r.Entries, h.Cell.History.Singles(r.Env.Logs), before, func(from, to uint64) metric.Number {
			return metric.Float(math.Float64frombits(to) - math.Float64frombits(from))
		})
	}
	if r.Stat == metric.Sum {
		r.readBinsLocked(h.body().Timer)
	}
}

func (timerKind) endTwins(r *Reader) {
	if !r.Stat.Additive() {
		return
	}
	n, s := r.twins.number.Increase(&r.Meter, false)
	switch count := n.Float64(); r.Stat {
	case metric.Count:
		r.plus(metric.Computed(math.Round(count)))
	case metric.Rate:
		r.plusRate(n, &s)
	case metric.Sum:
		r.addSum(count)
	default:
		r.unsupportedStat = true
	}
}

func (k setKind) readTwinLocked(r *Reader, h Series, _ *window.Course) { k.ReadLocked(r, h) }

func (setKind) endTwins(*Reader) {}

func (gaugeKind) readTwinLocked(r *Reader, h Series, course *window.Course) {
	part, set := GaugePartLocked(h)
	if !set {
		return
	}
	part.Ahead, part.Rank = time.Duration(r.Now.Epoch.UnixNano()), r.Rank
	r.twins.gauges = append(r.twins.gauges, part)
	if !r.Stat.Windowed() {
		return
	}
	r.Entries = h.Cell.History.Read(r.Env.Logs, window.FloatCoding, r.Entries[:0])
	for i, entry := range r.Entries {
		tick := entry.Tick
		if i == 0 {
			tick = min(tick, *h.Born) // setting a gauge to its current value creates no entry
		}
		r.twins.levels = append(r.twins.levels, level{course.Middle(tick), math.Float64frombits(entry.Value)})
	}
}

func (gaugeKind) endTwins(r *Reader) {
	t := r.twins
	switch {
	case len(t.gauges) == 0:
	case !r.Stat.Windowed():
		n, _ := MergeGauges(t.gauges)
		r.plus(n)
	case len(t.levels) > 0:
		slices.SortStableFunc(t.levels, func(a, b level) int { return cmp.Compare(a.at, b.at) })
		r.gauges.addLevels(t.levels)
	}
}

// progress is how far a client has come with a running total: the start time and the date of its newest one.
type progress struct {
	started int64 // newest start time, in Unix nanoseconds; 0: unknown
	at      int64 // newest date, in Unix nanoseconds; 0: unknown
	// pushes counts the totals that the client pushed, to any of several replicas as far as known (a
	// Lamport clock): neither a clock nor the value tells a reset from a late total.
	pushes uint64
	// arrived is the newest arrival, in milliseconds of the lifetime clock; 0: unknown.
	arrived uint64
}

// alike is the difference between arrivals at two origins that errors of their clocks may explain.
const alike = 2000

// after reports whether a total is a later one of the same client than another, as far as clients
// and origins tell. equal: neither is known to be later.
func (o *progress) after(p *progress) (later, equal bool) {
	switch {
	case o.started != p.started && o.started != 0 && p.started != 0:
		return o.started > p.started, false
	case o.at != p.at && o.at != 0 && p.at != 0:
		return o.at > p.at, false
	case o.arrived != 0 && p.arrived != 0 && max(o.arrived, p.arrived)-min(o.arrived, p.arrived) > alike:
		return o.arrived > p.arrived, false
	}
	return o.pushes > p.pushes, o.pushes == p.pushes
}

// join makes o the progress of a total that was adopted from another replica.
func (o *progress) join(p *progress) {
	*o = progress{max(o.started, p.started), max(o.at, p.at), max(o.pushes, p.pushes), max(o.arrived, p.arrived)}
}

// judge compares a total with the newest one; fell: it is lower. anew: the client restarted its total
// since. late: the total is old, and may look like a reset. The OpenTelemetry Collector sends batches
// concurrently, so they overtake each other; a retried remote write pushes old totals.
//
// A lower total is a reset only if it is newer. A higher one with the same start time is later,
// whatever its date: the client's clock was set back. A total that was read before the newest one arrived, at another
// replica perhaps, is not newer.
func (o *progress) judge(s *metric.Sample, fell bool, now window.Moment) (anew, late bool) {
	anew = o.started != 0 && s.Started > o.started
	switch {
	case fell && s.Read != 0:
		late = o.arrived > millisOf(time.Unix(0, s.Read).Sub(now.Epoch))
	case anew || s.Dated == 0:
	case fell:
		late = s.Dated <= o.at
	case s.Started == 0 || s.Started != o.started:
		late = s.Dated < o.at
	}
	return anew, late
}

// see remembers the start time and date of an accepted total.
func (o *progress) see(s *metric.Sample, now window.Moment) {
	o.started = max(o.started, s.Started)
	o.at = max(o.at, DateOf(s, now))
	o.pushes++
	o.arrived = max(o.arrived, millisOf(now.Life))
}

// DateOf returns the date of a sample, in Unix nanoseconds; 0: it has none. A date beyond clockError in the
// future becomes the present: otherwise, once a client's clock is corrected, its totals would be old for as
// long.
func DateOf(s *metric.Sample, now window.Moment) int64 {
	if wall := now.Wall.UnixNano(); s.Dated > wall+int64(clockError) {
		return wall
	}
	return s.Dated
}

// clockError bounds how far the clock of a client may be ahead: dates up to it keep their order.
const clockError = 10 * time.Second

// appendMoves appends the fields that only replicas need.
func (o *progress) appendMoves(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, o.pushes), o.arrived)
}

func (o *progress) readMoves(d *blob.Decoder) {
	o.pushes, o.arrived = d.Uvarint(), d.Uvarint()
	if o.arrived > latestStamp {
		d.Fail()
	}
}

// ahead converts the arrival to the clock of another origin.
func (o progress) ahead(millis int64) progress {
	if o.arrived != 0 {
		o.arrived = uint64(max(int64(o.arrived)+millis, 1))
	}
	return o
}
