package aggregate

import (
	"math"
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// reading computes the values of one answer, all with the same stat, window and moment.
type reading struct {
	table *Table
	kind  metric.Kind // of the object in hand
	takes kindSet     // the kinds that are read; objects of others are absent
	stat  metric.Stat
	view  view
	now   moment
	match func(metric.Labels) bool
	room  *finding
	gone  grave // of a series that has outlived its time, but was not swept up yet
	slow  slowPush
	// lacks says why a timer has no value although something came; empty: nothing came.
	lacks string
	// unmergeable is set where percentiles of several label sets were asked for that cannot be merged.
	unmergeable bool
	// unread is set where the stat has no reading: a fault of the program's.
	unread bool

	touched uint64 // what touch looked at, so that it is looked at

	notes, fractions []note  // scratch space
	cadence          cadence // of the notes
	read             int     // series, to let others have the processor

	rollup
}

// rollup is what the series added so far come to.
type rollup struct {
	series int // how many
	newest time.Time
	shared metric.Labels // what their labels have in common
	value  metric.Number // of stats that add
	some   bool          // whether value holds anything
	// partial is set where a part of the value is not known.
	partial bool
	spread  *distribution // timers
	// Of timers, how many are summaries, and the quantiles of one.
	summaries int
	quantiles []metric.Quantile
	members   *union // sets
	levels    levels // gauges over a window
}

// perTouch is how many entries are touched at once: what is touched is in the fastest cache when it is read.
const perTouch = 64

// touch looks at what is going to be read of some entries. Nothing of it depends on what was looked at before, so the processor waits
// for the memory of many of them at once; reading them waits for one after the other.
func (r *reading) touch(some []found) {
	for i := range some {
		e := some[i].entry
		if len(some[i].series) == 0 {
			continue
		}
		b, place := r.table.blocks.of(some[i].series[0].number)
		r.touched += uint64(len(e.name)) + uint64(e.kind) + uint64(b.page.cells[place].state.Load()) + uint64(b.series[place].aliases.Load())
	}
}

// begin starts a roll-up.
func (r *reading) begin() {
	spread, levels := r.spread, r.levels
	r.rollup = rollup{spread: spread, levels: levels}
	switch r.kind {
	case metric.Timer:
		if spread == nil {
			r.spread = distributions.Get().(*distribution)
		}
		r.spread.reset()
	case metric.Set:
		r.members = newUnion()
	case metric.Gauge:
		r.levels.begin(&r.view, r.now, r.table.clock.tick)
	}
}

// end gives scratch space back.
func (r *reading) end() {
	if r.spread != nil {
		distributions.Put(r.spread)
		r.spread = nil
	}
	if r.room != nil {
		r.room.release()
		r.room = nil
	}
}

// add rolls one series up, if it still lives and its labels match.
func (r *reading) add(s ref) {
	r.slow = slowPush{}
	b, place := r.table.blocks.of(s.number)
	b.history.Lock()
	r.addLocked(s, b, place)
	b.history.Unlock()
	if r.read++; r.read%perHold == 0 {
		runtime.Gosched() // an object of many series is not the only one who wants the processor
	}
	if r.slow.entry != nil {
		r.table.slow.warn(r)
	}
}

func (r *reading) addLocked(s ref, b *block, place uint32) {
	c := &b.page.cells[place]
	if c.state.Load() != s.state {
		return
	}
	labels := b.series[place].labels()
	if r.match != nil && !r.match(labels) {
		return
	}
	if r.table.expired(b, place, r.now) {
		r.gone = r.table.epitaph(b, place, expiry)
		return
	}
	if r.series++; r.series == 1 {
		r.shared = labels
	} else {
		r.shared = r.shared.Intersection(labels)
	}
	if !r.stat.Windowed() {
		r.dateLocked(b, place)
	}
	if r.stat.Windowed() && b.page.dirty.has(place) {
		r.table.rollSeriesLocked(b, place, b.tickLocked(place, r.now)) // what came since the last roll counts
	}
	switch r.kind {
	case metric.Counter:
		r.addCounterLocked(b, place)
	case metric.Gauge:
		r.addGaugeLocked(b, place)
	case metric.Timer:
		r.addTimerLocked(b, place)
	case metric.Set:
		b.body(place).set.readLocked(r.members, r.view)
	}
}

func (r *reading) plus(n metric.Number) { r.value, r.some = r.value.Plus(n), true }

// addCounterLocked reads a counter. What came in a window is read off the notes, so it is noted first.
func (r *reading) addCounterLocked(b *block, place uint32) {
	if r.stat == metric.Total {
		r.plus(totalLocked(b, place))
		return
	}
	s, before, some := r.notesOf(&b.page.cells[place].past, wholeCoding, b.series[place].born)
	count := metric.Int(0)
	if some {
		count = r.countLocked(b, place, s, before)
	}
	switch r.stat {
	case metric.Count:
		r.plus(count)
	case metric.Rate:
		r.checkPace(b.series[place].entry)
		r.plus(metric.Computed(count.Float64() / s.seconds))
	default:
		r.unread = true
	}
}

// countLocked is what a counter grew by in a stretch, with its fractions.
func (r *reading) countLocked(b *block, place uint32, s stretch, before uint64) metric.Number {
	var fraction *past
	fractionBefore := uint64(0)
	if body := b.body(place); body != nil && body.fraction.past.stamp != 0 {
		fraction = &body.fraction.past
		r.fractions = fraction.read(r.table.notes, wholeCoding, r.fractions[:0])
		// It may have begun later than the counter. If not, it is as old.
		if oldest := r.fractions[0]; oldest.tick <= r.notes[0].tick && r.table.notes.before(r.notes[0], b.series[place].born) != 0 {
			fractionBefore = oldest.value
		}
	}
	since := func(from float64) metric.Number {
		whole, part := increaseSince(r.notes, from, before, wholes)
		if fraction == nil {
			return metric.Int(whole + int64(math.Round(part)))
		}
		units, rest := increaseSince(r.fractions, from, fractionBefore, wholes)
		steps := math.Trunc(part)
		return metric.Decimal(whole+int64(steps), units+int64(math.Round(rest+(part-steps)*fractionUnits)))
	}
	integral := fraction == nil && r.stat == metric.Count
	return s.scaled(since(s.from), integral, func(from float64) float64 { return since(from).Float64() })
}

func (r *reading) addGaugeLocked(b *block, place uint32) {
	v, set := gaugeValue(b, place)
	switch {
	case !set:
	case r.stat == metric.Last:
		r.plus(v)
	default:
		r.notes = b.page.cells[place].past.read(r.table.notes, floatCoding, r.notes[:0])
		r.levels.add(r.notes, b.series[place].born)
	}
}

// addTimerLocked reads a timer: what adds up by its notes, as a counter's; the rest by its bins.
func (r *reading) addTimerLocked(b *block, place uint32) {
	timer := b.body(place).timer
	if !r.stat.Additive() {
		timer.readLocked(r.spread, r.table.spans, r.view)
		if timer.pushed != nil && len(timer.pushed.quantiles) > 0 {
			r.summaries++
			r.quantiles = timer.pushed.quantiles
		}
		return
	}
	s, before, some := r.notesOf(&b.page.cells[place].past, weightCoding, b.series[place].born)
	count := 0.0
	if some {
		since := func(from float64) float64 {
			weight, part := increaseSince(r.notes, from, before, math.Float64frombits)
			if weight == math.Trunc(weight) {
				part = math.Round(part)
			}
			return weight + part
		}
		count = s.scaled(metric.Float(since(s.from)), r.stat == metric.Count, since).Float64()
	}
	switch r.stat {
	case metric.Count:
		r.plus(metric.Computed(count))
	case metric.Rate:
		r.plus(metric.Computed(count / s.seconds))
	case metric.Sum:
		r.addSumLocked(timer, count)
	default:
		r.unread = true
	}
}

// addSumLocked adds the sum of so many observations of a timer: their mean is that of its bins.
func (r *reading) addSumLocked(timer *timer, count float64) {
	r.spread.reset()
	timer.readLocked(r.spread, r.table.spans, r.view)
	if count > 0 && r.spread.size() == 0 { // it lies in the unit that the window divides
		wider := r.view
		wider.first--
		timer.readLocked(r.spread, r.table.spans, wider)
	}
	size, sum := r.spread.size(), r.spread.sum
	switch {
	case count == 0 && size == 0:
	case size == 0 || math.IsNaN(sum):
		r.lacks, r.partial = untold, true
		return
	case math.Abs(count/size-1) > 1e-9:
		sum *= count / size
	}
	r.plus(metric.Computed(sum))
}

// untold says why a timer lacks a value although something came.
const untold = "what was pushed does not tell it"

// point is the roll-up's value. False: there is none, such as the mean of nothing.
func (r *reading) point() (metric.Point, bool) {
	p := metric.Point{Time: r.now.date(), Window: r.view.span.window}
	if !r.stat.Windowed() {
		p.Time, p.Window = r.newest, 0
	}
	if r.series == 0 {
		return p, false
	}
	if r.partial {
		return p, false
	}
	if r.some {
		p.Value = r.value
		return p, true
	}
	v, ok := r.stat64()
	p.Value = metric.Computed(v)
	return p, ok
}

// stat64 is the value of a stat that does not add up, or notes why there is none. A stat that a kind is said to have, and that is not
// read here, is an error and not a number: see refuse.
func (r *reading) stat64() (v float64, ok bool) {
	switch {
	case r.kind == metric.Timer:
		return r.timerStat()
	case r.kind == metric.Set && r.stat == metric.Unique:
		return r.members.count(), true
	case r.kind == metric.Gauge && (r.stat == metric.Mean || r.stat == metric.Min || r.stat == metric.Max):
		return r.levels.stat(r.stat)
	case r.kind == metric.Gauge && r.stat == metric.Last:
		return 0, false // created this very moment, without a value yet
	}
	r.unread = true
	return 0, false
}

// stat reads a stat off a distribution. Not known: nothing has none. Not read: there is no such stat.
func (d *distribution) stat(s metric.Stat) (v float64, known, read bool) {
	switch s {
	case metric.Count:
		return d.count(), true, true
	case metric.Sum:
		return d.sum, !math.IsNaN(d.sum), true
	case metric.Mean:
		return d.mean(), d.size() > 0 && !math.IsNaN(d.sum), true
	case metric.Min:
		return d.min, !math.IsInf(d.min, 0), true
	case metric.Max:
		return d.max, !math.IsInf(d.max, 0), true
	}
	q := s.Quantile()
	if math.IsNaN(q) {
		return 0, false, false
	}
	if d.total == 0 {
		return 0, false, true
	}
	return d.quantile(q), true, true
}

// external computes the values of an external metric.
func (r *reading) external(points []metric.Point, one found) (_ []metric.Point, matched bool) {
	defer r.end()
	r.begin()
	for _, s := range one.series {
		r.add(s)
		if !r.stat.Additive() {
			continue
		}
		matched = matched || r.series > 0
		points = r.appendPoint(points)
		r.begin()
	}
	if !r.stat.Additive() {
		matched = r.series > 0
		points = r.appendPoint(points)
	}
	return points, matched
}

func (r *reading) appendPoint(points []metric.Point) []metric.Point {
	p, ok := r.point()
	if !ok {
		return points
	}
	p.Labels = r.shared
	return append(points, p)
}

// dateLocked takes account of when the newest sample of a series arrived. A sample that the roller has not met yet is noted
// here, so that later reads of the same value say the same.
func (r *reading) dateLocked(b *block, place uint32) {
	if b.page.dirty.has(place) {
		now := r.table.clock.now()
		r.table.noteLocked(b, place, b.tickLocked(place, now), now)
	}
	if at := r.now.dated(b.page.cells[place].seen.Load()); at.After(r.newest) {
		r.newest = at
	}
}

// arrived is about when the newest sample of a series arrived, for those who do not hold the history lock.
func arrived(b *block, place uint32, now moment) time.Time {
	if b.page.dirty.has(place) {
		return now.wall
	}
	return now.dated(b.page.cells[place].seen.Load())
}
