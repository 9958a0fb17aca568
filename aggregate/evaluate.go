package aggregate

import (
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// evaluation computes the values of one answer, all with the same stat, window and moment.
type evaluation struct {
	table  *Table
	takes  kindSet // the kinds that are read; objects of others are absent
	now    window.Moment
	match  func(metric.Labels) bool
	buffer *index.Buffer
	gone   removal // of a series that has outlived its time, but was not swept up yet
	slow   slowPush

	touched uint64 // what touch looked at, so that it is looked at
	read    int    // series, to let others have the processor

	kind.Reader
	// Of the series of the object in hand:
	newest time.Time
	shared metric.Labels // what their labels have in common
}

// perTouch is how many entries are touched at once: what is touched is in the fastest cache when it
// is read.
const perTouch = 64

// touch looks at what is going to be read of some entries. Nothing of it depends on what was looked
// at before, so the processor waits for the memory of many of them at once; reading them waits for
// one after the other.
func (r *evaluation) touch(some []index.Found) {
	for i := range some {
		e := some[i].Entry
		if len(some[i].Series) == 0 {
			continue
		}
		b, place := r.table.blocks.of(some[i].Series[0].Number)
		r.touched += uint64(len(e.Name)) + uint64(e.Kind) + uint64(b.page.cells[place].State.Load()) + uint64(b.series[place].aliases.Load())
	}
}

// begin starts with the next object.
func (r *evaluation) begin() {
	r.Reader.Begin()
	r.newest, r.shared = time.Time{}, metric.Labels{}
}

// end gives scratch space back.
func (r *evaluation) end() {
	r.Reader.End()
	if r.buffer != nil {
		r.buffer.Release()
		r.buffer = nil
	}
}

// add rolls one series up, if it still lives and its labels match.
func (r *evaluation) add(s lookup.Ref) {
	r.slow = slowPush{}
	b, place := r.table.blocks.of(s.Number)
	b.history.Lock()
	r.addLocked(s, b, place)
	b.history.Unlock()
	if r.read++; r.read%index.EntriesPerHold == 0 {
		runtime.Gosched() // an object of many series is not the only one who wants the processor
	}
	if r.slow.entry != nil {
		r.table.slow.warn(r)
	}
}

func (r *evaluation) addLocked(s lookup.Ref, b *block, place uint32) {
	c := &b.page.cells[place]
	if c.State.Load() != s.State {
		return
	}
	labels := b.series[place].labels()
	if r.match != nil && !r.match(labels) {
		return
	}
	if r.table.hasExpired(b, place, r.now) {
		r.gone = r.table.removalOf(b, place, expired)
		return
	}
	if r.Series++; r.Series == 1 {
		r.shared = labels
	} else {
		r.shared = r.shared.Intersection(labels)
	}
	if !r.Stat.Windowed() {
		r.dateLocked(b, place)
	}
	if r.Stat.Windowed() && b.page.dirty.Has(place) {
		r.table.rollSeriesLocked(b, place, b.tickLocked(place, r.now)) // what came since the last roll counts
	}
	kind.Of(r.Kind).ReadLocked(&r.Reader, b.handle(place))
	if r.Kind == metric.Counter && r.Stat == metric.Rate {
		r.checkPace(b.series[place].entry)
	}
}

// point is the roll-up's value. False: there is none, such as the mean of nothing.
func (r *evaluation) point() (metric.Point, bool) {
	p := metric.Point{Time: r.now.Date(), Window: r.View.Span.Window}
	if !r.Stat.Windowed() {
		p.Time, p.Window = r.newest, 0
	}
	var ok bool
	p.Value, ok = r.Value()
	return p, ok
}

// external computes the values of an external metric.
func (r *evaluation) external(points []metric.Point, one index.Found) (_ []metric.Point, matched bool) {
	defer r.end()
	r.begin()
	for _, s := range one.Series {
		r.add(s)
		if !r.Stat.Additive() {
			continue
		}
		matched = matched || r.Series > 0
		points = r.appendPoint(points)
		r.begin()
	}
	if !r.Stat.Additive() {
		matched = r.Series > 0
		points = r.appendPoint(points)
	}
	return points, matched
}

func (r *evaluation) appendPoint(points []metric.Point) []metric.Point {
	p, ok := r.point()
	if !ok {
		return points
	}
	p.Labels = r.shared
	return append(points, p)
}

// dateLocked takes account of when the newest sample of a series arrived. A sample that the roller
// has not met yet is noted here, so that later reads of the same value say the same.
func (r *evaluation) dateLocked(b *block, place uint32) {
	if b.page.dirty.Has(place) {
		now := r.table.Clock.Now()
		r.table.noteLocked(b, place, b.tickLocked(place, now), now)
	}
	if at := r.now.DateOf(b.page.cells[place].Seen.Load()); at.After(r.newest) {
		r.newest = at
	}
}
