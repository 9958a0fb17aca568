package aggregate

import (
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	takes  kindSet // the kinds that answer; objects of other kinds are absent
	now    window.Moment
	match  func(metric.Labels) bool
	gone   removal // of an expired series that was not swept yet
	goneAt *Table
	slow   slowPush
	pace   *slowPushLog // warns of slow
	hidden hiddenSeries

	touched uint64 // a sum of the loads of touch, so that the compiler keeps them
	read    int    // series read so far, to yield the processor now and then

	kind.Reader
	// The fields below are about the series of the current object.
	newest time.Time     // arrival of the newest sample
	asOf   time.Time     // up to which all origins of its series are known; zero: up to now
	shared metric.Labels // labels that all its series have in common

	spans []float64 // of the rates of an external metric, by point
}

// perTouch is the number of entries that touch loads at once. Their memory fits into the
// processor's fastest cache and is still there when the entries are read.
const perTouch = 64

// touch loads memory of some entries that the next reads need. No load depends on an earlier one,
// so the processor waits for the cache misses of many entries at once. Without touch it would wait
// for one after the other.
func (r *evaluation) touch(some []index.Found) {
	for i := range some {
		e := some[i].Entry
		if len(some[i].Series) == 0 {
			continue
		}
		b, place := r.table.blocks.of(some[i].Series[0].Number)
		r.touched += uint64(len(e.Name)) + uint64(e.Kind) + uint64(b.page.cells[place].State.Load()) +
			uint64(b.series[place].aliases.Load())
	}
}

// begin starts the next object.
func (r *evaluation) begin() {
	r.Reader.Begin()
	r.newest, r.asOf, r.shared = time.Time{}, time.Time{}, metric.Labels{}
}

// add adds one series to the roll-up, if it is still live and its labels match.
func (r *evaluation) add(s lookup.Ref) {
	r.slow = slowPush{}
	b, place := r.table.blocks.of(s.Number)
	b.history.Lock()
	if r.selectsLocked(s, b, place) {
		r.addLocked(b, place)
	}
	b.history.Unlock()
	r.added()
}

// addSelected is add for a series that was selected before, if it still lives.
func (r *evaluation) addSelected(s lookup.Ref) {
	r.slow = slowPush{}
	b, place := r.table.blocks.of(s.Number)
	b.history.Lock()
	if b.page.cells[place].State.Load() == s.State {
		r.addLocked(b, place)
	}
	b.history.Unlock()
	r.added()
}

// added follows each series, after its lock was released.
func (r *evaluation) added() {
	if r.read++; r.read%index.EntriesPerHold == 0 {
		runtime.Gosched() // lets other goroutines run during a large answer
	}
	if r.slow.entry != nil {
		r.pace.warn(r)
	}
}

func (r *evaluation) addLocked(b *block, place uint32) {
	r.countSeries(b.series[place].labels())
	r.recordLocked(b, place)
	r.noteStartLocked(b, place)
	kind.Of(r.Kind).ReadLocked(&r.Reader, b.handle(place))
	if r.Kind == metric.Counter && r.Stat == metric.Rate {
		r.checkPace(b.series[place].entry)
	}
}

// selectsLocked reports whether a series is live and its labels match.
func (r *evaluation) selectsLocked(s lookup.Ref, b *block, place uint32) bool {
	if b.page.cells[place].State.Load() != s.State || r.hidden.has(s) {
		return false
	}
	if r.match != nil && !r.match(b.series[place].labels()) {
		return false
	}
	if r.table.hasExpired(b, place, r.now) {
		r.gone, r.goneAt = r.table.removalOf(b, place, expired), r.table
		return false
	}
	return true
}

// countSeries counts one more series of the current object.
func (r *evaluation) countSeries(labels metric.Labels) {
	if r.Series++; r.Series == 1 {
		r.shared = labels
	} else {
		r.shared = r.shared.Intersection(labels)
	}
}

// recordLocked records the samples of a series since the last roll, which count too.
func (r *evaluation) recordLocked(b *block, place uint32) {
	if !r.Stat.Windowed() {
		r.dateLocked(b, place)
	} else if b.page.dirty.Has(place) {
		r.table.rollSeriesLocked(b, place, b.tickLocked(place, r.now))
	}
}

// noteStartLocked notes when a series of an export began. What the export shows was recorded before
// (recordLocked), so a later fall is noticed.
func (r *evaluation) noteStartLocked(b *block, place uint32) {
	if r.WithStart {
		r.NoteStartLocked(b.handle(place), b.page.created[place])
	}
}

// point returns the value of the roll-up, or false if it has none, such as a mean of no samples.
func (r *evaluation) point() (metric.Point, bool) {
	p := metric.Point{Time: r.now.Date(), Window: r.View.Span.Window}
	if !r.Stat.Windowed() {
		p.Time, p.Window = r.newest, 0
	} else if !r.asOf.IsZero() {
		p.Time = r.asOf
	}
	var ok bool
	p.Value, ok = r.Value()
	return p, ok
}

// joinSpans gives the rates of the label sets of an external metric one divisor, so their sum is the
// rate of all of them.
func (r *evaluation) joinSpans(points []metric.Point) {
	if len(r.spans) < 2 {
		return
	}
	longest := slices.Max(r.spans)
	for i, span := range r.spans {
		if span < longest {
			points[i].Value = metric.Computed(points[i].Value.Float64() * span / longest)
		}
	}
}

func (r *evaluation) appendPoint(points []metric.Point) []metric.Point {
	p, ok := r.point()
	if !ok {
		return points
	}
	p.Labels = r.shared
	if r.Stat == metric.Rate {
		r.spans = append(r.spans, r.Span())
	}
	return append(points, p)
}

// dateLocked updates newest with the arrival of a series' newest sample. It records a sample that
// the roller has not recorded yet, so that later reads of the same value return the same time.
func (r *evaluation) dateLocked(b *block, place uint32) {
	if b.page.dirty.Has(place) {
		now := r.table.Clock.Now()
		r.table.noteLocked(b, place, b.tickLocked(place, now), now)
	}
	if at := r.now.DateOf(b.page.cells[place].Seen.Load()); at.After(r.newest) {
		r.newest = at
	}
}

// rollUp appends the value of all objects, whose series are read as label sets of one, and reports
// whether any of them is live and matches.
func (r *mergedRead) rollUp(points []metric.Point, to *metric.RollUp) (_ []metric.Point, matched bool) {
	k, oldest := r.Kind, time.Time{}
	r.beginMerged(k)
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		if r.kindOf(parts) != k {
			continue
		}
		before := r.Series
		r.newest = time.Time{}
		r.addParts(ofKind(parts, k))
		r.EndObject()
		if r.Series == before {
			continue
		}
		if oldest.IsZero() || r.newest.Before(oldest) {
			oldest = r.newest
		}
		if to.Each != nil {
			to.Each(parts[0].Entry.Object())
		}
	}
	r.newest = oldest
	r.use(r.own)
	if p, ok := r.point(); ok {
		p.Object = to.Object
		points = append(points, p)
	}
	return points, r.Series > 0
}

// slowPushLog warns of counters whose push interval is longer than a third of the window of a read.
// Their rate jumps with every push, because the window contains now three pushes and now two, or
// one and none.
type slowPushLog struct {
	log *slog.Logger
	// seen counts the reads of such counters.
	seen atomic.Uint64
	warnings
}

const (
	// slowGaps is the number of similar intervals in a row that make a push interval. Rare events
	// come at irregular intervals and cause no warning.
	slowGaps = 4
)

// slowPush is a slowly pushed counter that an evaluation read. The warning follows after the
// history lock is released.
type slowPush struct {
	entry    *index.Entry
	interval time.Duration
}

// checkPace sets slow if the counter that was just read is pushed too slowly for the window.
func (r *evaluation) checkPace(e *index.Entry) {
	interval := time.Duration(r.Cadence.Interval * float64(r.table.Clock.Tick))
	if r.Cadence.Alike >= slowGaps && float64(interval*window.SlowShare) > window.SlowSlack*float64(r.View.Span.Window) {
		r.slow = slowPush{e, interval}
	}
}

// warn logs the slow counter of an evaluation, at most once an hour for each metric.
func (s *slowPushLog) warn(r *evaluation) {
	s.seen.Add(1)
	e := r.slow.entry
	if !s.due(e.Family.Key, r.now.Wall) {
		return
	}
	s.log.Warn("a rate jumps, for its counter is pushed too slowly for the window: push more often, or read a longer one",
		"metric", e.Family.Key.Name, "object", e.Object().String(), "interval", r.slow.interval.Round(time.Second),
		"window", metric.FormatWindow(r.View.Span.Window))
}

// warnings limits a warning to one an hour for each metric.
type warnings struct {
	mu     sync.Mutex
	warned map[index.Key]time.Time
}

const (
	warnEvery  = time.Hour
	warnedMost = 1024
)

// due reports whether a metric may be warned of again.
func (s *warnings) due(key index.Key, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, before := s.warned[key]
	if before && now.Sub(at) < warnEvery {
		return false
	}
	if len(s.warned) >= warnedMost {
		maps.DeleteFunc(s.warned, func(_ index.Key, at time.Time) bool { return now.Sub(at) >= warnEvery })
	}
	if len(s.warned) >= warnedMost {
		return false
	}
	if s.warned == nil {
		s.warned = map[index.Key]time.Time{}
	}
	s.warned[key] = now
	return true
}
