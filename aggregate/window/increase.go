package window

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Positions in receiving time are in ticks: tick 7 lasts from 7 to 8, and an entry of tick 7 is the
// value at 8.
//
// A window extends from one position to now. If its start is within a tick, the increase of that
// tick counts in proportion to the part of the tick in the window.
//
// This is not enough for a client that pushes at an interval. With a push every seven seconds, a
// minute contains eight or nine pushes, so the count of a constant stream would vary by an eighth.
// The increase of such a number is measured from push to push, over about one window, and scaled to
// the window. This ends when the next push is overdue.

// Stretch is the part of a number's history that is measured for a window.
type Stretch struct {
	From  float64 // start position
	scale float64 // factor from the increase in the stretch to the increase in the window
	// If the stretch is not the window itself, the result is clamped between the increases since
	// these two positions: an interval after and before the start of the window. So the error for a
	// stream that only looks regular is at most one push.
	late, early float64
	Seconds     float64 // divisor of the increase for a rate
	// Span is the part of the window in which the series has existed, in seconds; at least the shortest
	// window. Unlike Seconds, it has the time in which an origin was down.
	Span float64
}

const (
	// overdueAfter is the number of intervals after a push from which the next push is overdue.
	overdueAfter = 1.25
	// SlowShare: a push interval should not exceed 1/SlowShare of a window.
	SlowShare = 3
	// SlowSlack is the tolerance of comparisons with SlowShare, because intervals are measured in
	// ticks.
	SlowSlack = 1.05
	// leastInterval is the interval, in ticks, from which changes count as single pushes. Closer
	// changes count only if History.Singles confirms it.
	leastInterval = 1.5
	// intervalSpread is the relative difference up to which intervals count as equal, because
	// clients sleep inexactly.
	intervalSpread = 0.5
)

// cadence is the interval, in ticks, of the newest changes of a number.
type cadence struct {
	Interval float64
	Alike    int // number of similar pauses in a row, up to the newest change
	first    int // index of the entry at the beginning of the first of them
}

// cadenceOf measures the interval of the newest changes. It skips those in which the process was
// down.
func cadenceOf(all []Entry, down *pauses) (p cadence) {
	p.first = len(all) - 1
	low, high, sum := math.MaxFloat64, 0.0, 0.0
	for ; p.first > 0; p.first-- {
		from, to := all[p.first-1].Tick, all[p.first].Tick
		if _, has := down.within(from, to); has {
			continue
		}
		pause := float64(to - from)
		low, high = min(low, pause), max(high, pause)
		mean := (sum + pause) / float64(p.Alike+1)
		if high-low > max(1, mean*intervalSpread) {
			break
		}
		sum += pause
		p.Alike++
		p.Interval = mean
	}
	return p
}

// leastAlike is the number of similar pauses in a row that make an interval for people.
const leastAlike = 3

// Interval is the interval of the newest changes of a number, in ticks; 0: there are too few of them, or
// they are irregular.
func Interval(p *History, c Coding, logs *Logs, clock *Clock) float64 {
	if p.Stamp == 0 {
		return 0
	}
	if found := cadenceOf(p.Read(logs, c, nil), clock.pauses.Load()); found.Alike >= leastAlike {
		return found.Interval
	}
	return 0
}

// Meter computes the increase in a window for one number at a time.
type Meter struct {
	Logs     *Logs
	Clock    *Clock
	Now      Moment
	Window   time.Duration
	Shortest time.Duration // the shortest window that the table keeps
	// Course is that of the number's origin, if others are read beside it; nil: there is one origin.
	Course *Course

	Entries []Entry // of the current number; scratch space
	Cadence cadence // of the current number
}

// stretch finds the part of a number's history to measure for the window. born is the tick of the
// series' birth.
func (m *Meter) stretch(all []Entry, single uint8, born uint32) Stretch {
	tick := m.Clock.Tick
	now, window := float64(m.Now.At)/float64(tick), float64(m.Window)/float64(tick)
	last := len(all) - 1
	covered := m.covered(born)
	span := m.existed(born, covered)
	plain := Stretch{From: now - window, scale: 1, Seconds: covered, Span: span}
	down := m.Clock.pauses.Load()
	m.Cadence = cadenceOf(all, down)
	p := m.Cadence
	overdue := now-float64(down.last(all[last].Tick)+1) > overdueAfter*p.Interval
	if p.Alike == 0 || overdue || p.Interval*SlowShare > window*SlowSlack {
		return plain
	}
	pushes := int(math.Round(window / p.Interval))
	if p.Interval < leastInterval && int(single) < min(pushes, mostSingle) {
		return plain
	}
	if before := last - pushes; before >= p.first {
		s := Stretch{From: float64(all[before].Tick + 1), Seconds: covered, Span: span,
			late: plain.From + p.Interval, early: plain.From - p.Interval}
		measured := math.Round(float64(all[last].Tick-all[before].Tick)/p.Interval) * p.Interval
		if out, has := down.within(all[before].Tick, all[last].Tick); has {
			// In receiving time, the pause is shorter by the downtime, or longer by a push that was lost.
			measured = float64(pushes) * p.Interval
			s.late, s.early = s.late+min(float64(out)/float64(tick), p.Interval), s.early-p.Interval
		} else if _, has := down.within(all[last].Tick, m.Now.Tick+1); has {
			// The last push before may be lost, and the next one is not due for an interval.
			resumed := down.all[len(down.all)-1].At
			s.early -= min(float64(m.Now.At-resumed)/float64(tick), p.Interval)
		}
		s.scale = window / measured
		return s
	}
	if young := p.first == 0 && p.Alike >= 2 && all[0].Tick <= born+1; young {
		pushes := len(all)
		if all[0].Value == 0 {
			pushes-- // the first push only started the total
		}
		gathered := time.Duration(float64(pushes) * p.Interval * float64(tick))
		return Stretch{From: 0, scale: 1, Seconds: max(gathered, m.Shortest).Seconds(), Span: span}
	}
	return plain
}

// covered is Stretch.Seconds of a series whose window is not measured from push to push.
func (m *Meter) covered(born uint32) float64 {
	return m.span(m.Now.At - time.Duration(born)*m.Clock.Tick)
}

// existed is Stretch.Span of a series. An origin's own time stands still while it is down; the label sets
// of an object that different origins counted have the reader's time in common. In whole milliseconds all
// readers know it alike; without a downtime it is the time that was covered.
func (m *Meter) existed(born uint32, covered float64) float64 {
	if m.Course == nil {
		return covered
	}
	at, _ := m.Course.extent(born)
	span := m.span(time.Duration(-at * float64(m.Clock.Tick)).Round(time.Millisecond))
	if math.Abs(span-covered) < time.Millisecond.Seconds() {
		return covered
	}
	return span
}

// span is the part of the window that an age covers, in seconds; at least the shortest window.
func (m *Meter) span(age time.Duration) float64 { return min(max(age, m.Shortest), m.Window).Seconds() }

// beginning returns the newest entry whose tick begins before the window, and the share of that
// tick in the window. It returns -1 if the window includes all entries.
func beginning(all []Entry, from float64) (at int, share float64) {
	for at = len(all) - 1; at >= 0; at-- {
		if begun := float64(all[at].Tick); begun < from {
			return at, max(begun+1-from, 0)
		}
	}
	return -1, 0
}

// IncreaseSince returns the growth of a number since a position: the changes after it, and the part
// of the change of the tick that contains it. before is the value before the first entry.
func IncreaseSince[N int64 | float64](all []Entry, from float64, before uint64, value func(uint64) N) (whole N, part float64) {
	newest := value(all[len(all)-1].Value)
	at, share := beginning(all, from)
	switch {
	case at < 0:
		return newest - value(before), 0
	case at > 0:
		before = all[at-1].Value
	}
	stood := value(all[at].Value)
	return newest - stood, float64(stood-value(before)) * share
}

// Wholes is the value function of WholeCoding for IncreaseSince.
func Wholes(v uint64) int64 { return int64(v) }

// Read reads the entries of a number and finds its stretch. It returns false if there is no entry.
func (m *Meter) Read(p *History, c Coding, born uint32) (s Stretch, before uint64, ok bool) {
	m.Entries, m.Cadence = m.Entries[:0], cadence{}
	if p.Stamp == 0 {
		return Stretch{scale: 1, Seconds: m.Window.Seconds(), Span: m.existed(born, m.covered(born))}, 0, false
	}
	m.Entries = p.Read(m.Logs, c, m.Entries)
	return m.stretch(m.Entries, p.Singles(m.Logs), born), m.Logs.Before(m.Entries[0], born), true
}

// Scaled scales the increase n in the stretch to the window. since returns the increase since a
// position. With whole, the result is rounded if that changes it by at most 1 %.
func (s Stretch) Scaled(n metric.Number, whole bool, since func(from float64) float64) metric.Number {
	if s.early == s.late {
		return n
	}
	one, other := since(s.late), since(s.early)
	v := max(min(one, other), min(n.Float64()*s.scale, max(one, other)))
	if rounded := math.Round(v); whole && math.Abs(rounded-v) <= math.Abs(v)/100 {
		v = rounded
	}
	return metric.Computed(v)
}
