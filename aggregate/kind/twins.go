package kind

import (
	"math"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Twins are the same series at several origins. Each origin has counted its own samples, so the
// series is what they counted together. It is read as one series, before the roll-up over an
// object's label sets.

// twins gathers one series of several origins.
type twins struct {
	number window.Joined
	gauges []GaugePart
	levels levels // of the gauges, over the window
	totals []TotalPart
}

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
	t.gauges, t.totals = t.gauges[:0], t.totals[:0]
	t.levels.begin()
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
