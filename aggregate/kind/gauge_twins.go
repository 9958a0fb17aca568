package kind

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// levels are the values of one gauge at several origins over the window.
type levels struct {
	all   []level
	parts []partLevels // in the order of twins.gauges
}

// level is a gauge's value from a position on, at one of its parts.
type level struct {
	at, value float64
	part      int
}

// partLevels are an origin's levels: those up to an index of all, from the end of the origin before on.
type partLevels struct {
	end int
	// The positions of the newest sample, and of the assignment that the value is of.
	pushed, assigned float64

	// Of a part that follows the newest assignment: its value without its own changes, and their sum so far.
	follows       bool
	base, changed float64
}

func (l *levels) begin() { l.all, l.parts = l.all[:0], l.parts[:0] }

// of returns the levels of one origin.
func (l *levels) of(part int) []level {
	from := 0
	if part > 0 {
		from = l.parts[part-1].end
	}
	return l.all[from:l.parts[part].end]
}

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
	l := &r.twins.levels
	r.Entries = h.Cell.History.Read(r.Env.Logs, window.FloatCoding, r.Entries[:0])
	for i, entry := range r.Entries {
		tick := entry.Tick
		if i == 0 {
			tick = min(tick, *h.Born) // setting a gauge to its current value creates no entry
		}
		l.all = append(l.all, level{course.Middle(tick), math.Float64frombits(entry.Value), len(l.parts)})
	}
	ago := r.Now.Life - time.Duration(part.At)*time.Millisecond
	l.parts = append(l.parts, partLevels{end: len(l.all), pushed: course.Middle(h.Cell.History.Stamp),
		assigned: course.Known - float64(ago)/float64(r.Env.Clock.Tick)})
}

func (gaugeKind) endTwins(r *Reader) {
	t := r.twins
	n, newest := MergeGauges(t.gauges)
	switch {
	case newest < 0:
	case !r.Stat.Windowed():
		r.plus(n)
	case t.gauges[newest].known():
		r.gauges.addLevels(t.joinLevels(n.Float64(), newest))
	default: // the sum of what was changed at each origin
		for part := range t.gauges {
			own := t.levels.of(part)
			sortLevels(own) // a clock that was told wrongly goes back
			r.gauges.addLevels(own)
		}
	}
}

func sortLevels(all []level) {
	slices.SortStableFunc(all, func(a, b level) int { return cmp.Compare(a.at, b.at) })
}

// joinLevels returns the levels of a gauge that was set, in order. The last one is its merged value.
//
// Since the newest assignment, they are its origin's value and the changes that follow it elsewhere. Before, each is
// that of the origin where it came: what followed an earlier assignment isn't known any more.
func (t *twins) joinLevels(value float64, newest int) []level {
	l := &t.levels
	t.follow(newest)
	sortLevels(l.all)
	joined, set, changes := l.all[:0], 0.0, 0.0
	for _, one := range l.all {
		p := &l.parts[one.part]
		switch since := one.at - l.parts[newest].assigned; {
		case !t.gauges[one.part].known(): // changes of nothing that is known
			continue
		case !p.follows || since < -0.5: // an assignment may come late in its tick
			set = one.value
		case since < heardAfter && one.at < p.pushed:
			continue
		default:
			change := one.value - p.base
			changes += change - p.changed
			p.changed = change
		}
		joined = append(joined, level{at: one.at, value: set + changes})
	}
	if len(joined) > 0 {
		joined[len(joined)-1].value = value
	}
	return joined
}

// heardAfter is the number of ticks after which an origin has heard of an assignment elsewhere: its changes of before
// follow an earlier one.
const heardAfter = 1.5

// follow prepares the parts for joinLevels. An origin keeps no note of a sample that sets a gauge to what it is there, as
// of a client that went elsewhere and came back. It came back some time after the newest sample elsewhere; the tick
// after that is assumed.
func (t *twins) follow(newest int) {
	l, first, elsewhere := &t.levels, &t.gauges[newest], math.Inf(-1)
	for i := range l.parts {
		p, of := &l.parts[i], &t.gauges[i]
		switch p.follows = i != newest && of.follows(first); {
		case p.follows:
			p.base = of.Value.Float64() - of.Shifts.Float64()
		case i != newest && of.known():
			elsewhere = max(elsewhere, p.pushed)
		}
	}
	if own := l.of(newest); len(own) == 0 || own[len(own)-1].at <= elsewhere {
		l.all = append(l.all, level{elsewhere + 1, first.Value.Float64(), newest})
	}
}
