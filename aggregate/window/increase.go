package window

import (
	"math"
	"time"
)

// Positions in receiving time are in ticks: tick 7 lasts from 7 to 8, and an entry of tick 7 is the
// value at 8.
//
// A window extends from one position to now. If its start is within a tick, the increase of that
// tick counts in proportion to the part of the tick in the window. That is the plain window.
//
// For a client that pushes at an interval this is not enough. With a push every seven seconds, a
// minute contains eight or nine pushes, so the count of a constant stream would vary by an eighth.
// The pushes of such a number stand for the time between them: a minute counts the newest eight,
// and 4/7 of the one before. This ends when the next push is overdue. No other push is scaled.

// Stretch is the part of a number's history that is measured for a window.
type Stretch struct {
	From float64 // start position of the plain window
	// A regular number counts the pushes since the position near, and the share of the push between
	// far and near. The result differs from the plain window by at most this many such pushes.
	near, far, share, most float64
	Seconds                float64 // divisor of the increase for a rate
	// Span is the part of the window in which the series has existed, in seconds; at least the shortest
	// window. Unlike Seconds, it has the time in which an origin was down.
	Span float64
}

const (
	// overdueAfter is the number of intervals after a push from which the next push is overdue.
	overdueAfter = 1.25
	// mostSkipped is the longest pause over a downtime, in intervals, after which a number is still
	// regular.
	mostSkipped = 2
	// SlowShare: a push interval should not exceed 1/SlowShare of a window.
	SlowShare = 3
	// SlowSlack is the tolerance of comparisons with SlowShare, because intervals are measured in
	// ticks.
	SlowSlack = 1.05
	// leastInterval is the interval, in ticks, below which a number may be pushed once a tick.
	leastInterval = 1.5
	// singleInterval is the interval, in ticks, from which changes count as single pushes. Closer changes
	// count only if History.Singles confirms it: a client that pushes once a tick, as the ticks change, has
	// pauses of one and two ticks, and two pushes in some.
	singleInterval = 2
	// leastRegular is how many alike intervals in a row make a number regular, and leastYoung how many do
	// in a series that began lately.
	leastRegular = 4
	leastYoung   = 2
	// intervalSlack and intervalSpread are the difference from the mean up to which intervals are alike, in
	// ticks and as a share of the mean. The moment of a change is known to a tick; beyond that, each interval
	// is within 10 % of the median.
	intervalSlack  = 1
	intervalSpread = 0.05
	// A result may differ from the plain window by half a push; with fewer than manyPushes in the window,
	// where half a push is more than 2 %, by a whole one.
	manyPushes = 25
)

// cadence is the interval, in ticks, of the newest changes of a number.
type cadence struct {
	Interval float64
	Alike    int // number of alike pauses in a row, up to the newest change
	first    int // index of the entry at the beginning of the first of them
	sum      float64
	// least and most bound the interval: a clock of any interval between them has a tick for each change.
	least, most float64
	// shortest and widest are the shortest and the longest of the alike pauses.
	shortest, widest float64
	// steps is the number of pauses since one was skipped; runs are their sums up to each of the newest
	// mostSteps; longest is the longest skipped pause.
	steps   int
	runs    [mostSteps]float64
	longest float64
}

// mostSteps is the number of pauses in a row whose sum is compared with as many intervals, besides all
// pauses up to the newest change.
const mostSteps = 4

// take adds the pause before those that were taken, if they are alike.
func (p *cadence) take(pause float64) bool {
	sum, n, run := p.sum+pause, float64(p.Alike+1), pause
	if p.steps > 0 {
		run += p.runs[p.steps%mostSteps]
	}
	steps := p.steps + 1
	off := intervalSlack + sum/n*intervalSpread
	least, most := max(pause-off, (run-off)/float64(steps)), min(pause+off, (run+off)/float64(steps))
	for k := 2; k <= mostSteps && k < steps; k++ {
		newest := run - p.runs[(steps-k)%mostSteps]
		least, most = max(least, (newest-off)/float64(k)), min(most, (newest+off)/float64(k))
	}
	shortest, widest := pause, pause
	if p.Alike > 0 {
		least, most = max(p.least, least), min(p.most, most)
		shortest, widest = min(p.shortest, pause), max(p.widest, pause)
	}
	if least > most {
		return false
	}
	p.least, p.most, p.shortest, p.widest, p.sum, p.steps = least, most, shortest, widest, sum, steps
	p.Interval = max(least, min(sum/n, most))
	p.runs[steps%mostSteps] = run
	p.Alike++
	return true
}

// skip leaves out the pause before those that were taken: the process was down within it.
func (p *cadence) skip(pause float64) { p.steps, p.longest = 0, max(p.longest, pause) }

// regular reports whether the number is regular since a push (the newest but n) and in the whole window:
// the row of alike pauses begins before both, or no earlier pause is known.
func (p *cadence) regular(push, n int, covers bool) bool {
	return p.Alike >= p.row(n) && push >= p.first && (covers || p.first == 0)
}

// row is the number of alike pauses in a row that make a number regular in a window of n pushes. The moment of
// a push is known to a tick. So where pushes are closer than two ticks and their pauses differ, a row as long as
// the window gives the number of pushes with an error of one, as the plain window does. Only a row of twice that
// length does better: its error is half a push.
func (p *cadence) row(n int) int {
	if p.Interval < singleInterval && n < manyPushes && p.widest-p.shortest > 0.75*intervalSlack {
		return max(leastRegular, 2*n)
	}
	return leastRegular
}

// alone is the number of the newest changes that must be single pushes.
func (p *cadence) alone(n int) int {
	if p.Interval < singleInterval {
		return min(max(n, p.row(n)), mostSingle)
	}
	return 0
}

// pushes is the number of pushes in a window of some ticks: whole ones, and a share; false: the number
// has no interval, or is pushed too slowly for the window. quiet is the time since the newest push.
func (p *cadence) pushes(window, quiet float64) (whole int, share float64, ok bool) {
	if p.Alike == 0 || quiet > overdueAfter*p.Interval || p.longest > mostSkipped*p.Interval+intervalSlack ||
		p.Interval*SlowShare > window*SlowSlack {
		return 0, 0, false
	}
	n, share := math.Modf(window / p.Interval)
	return int(n), share, true
}

// cadenceOf measures the interval of the newest changes. It skips those in which the process was
// down.
func cadenceOf(all []Entry, down *pauses) (p cadence) {
	for p.first = len(all) - 1; p.first > 0; p.first-- {
		from, to := all[p.first-1].Tick, all[p.first].Tick
		if down.within(from, to) {
			p.skip(float64(to - from))
		} else if !p.take(float64(to - from)) {
			break
		}
	}
	return p
}

// leastAlike is the number of alike pauses in a row that make an interval for people.
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
	// Course is the course of the number's origin; nil: no other origin is read beside it.
	Course *Course

	Entries []Entry // of the current number; scratch space
	Cadence cadence // of the current number
}

// stretch finds the part of a number's history to measure for the window. born is the tick of the
// series' birth.
func (m *Meter) stretch(all []Entry, single uint8, born uint32) (s Stretch) {
	tick := m.Clock.Tick
	now, window := float64(m.Now.At)/float64(tick), float64(m.Window)/float64(tick)
	s.From, s.Seconds = now-window, m.covered(born)
	s.Span = m.existed(born, s.Seconds)
	down := m.Clock.pauses.Load()
	m.Cadence = cadenceOf(all, down)
	p, last := m.Cadence, len(all)-1
	n, share, ok := p.pushes(window, m.quiet(all[last].Tick))
	if !ok || int(single) < p.alone(n) {
		return s
	}
	switch before := last - n; {
	case p.regular(before, n, float64(all[p.first].Tick+1) <= s.From):
		begun := all[before].Tick
		s.measure(float64(begun), float64(begun+1), n, share, down.within(begun, m.Now.Tick+1))
	case before < 0 && p.first == 0 && p.Alike >= leastYoung && all[0].Tick <= born+1:
		pushes := len(all)
		if all[0].Value == 0 {
			pushes-- // the first push only started the total
		}
		s.Seconds = m.gathered(pushes, p.Interval, s.Seconds)
	}
	return s
}

// gathered is the divisor of the rate of a regular series that is younger than the window: its first push
// stands for the interval before the birth. covered is the series' age.
func (m *Meter) gathered(pushes int, interval, covered float64) float64 {
	if pushes >= manyPushes || covered >= m.Window.Seconds() {
		return covered
	}
	return max(time.Duration(float64(pushes)*interval*float64(m.Clock.Tick)), m.Shortest).Seconds()
}

// quiet is the longest time since a tick in which the process was not down, in ticks: once it is up again, the
// next push is due at any moment within an interval.
func (m *Meter) quiet(tick uint32) (longest float64) {
	since := time.Duration(tick+1) * m.Clock.Tick
	for _, p := range m.Clock.Pauses() {
		if p.At > since {
			longest = max(longest, float64(p.At-since))
			since = p.At
		}
	}
	return max(longest, float64(m.Now.At-since)) / float64(m.Clock.Tick)
}

// measure makes the stretch run from push to push: n pushes after near, and a share of the one between far
// and near. down: the process was down meanwhile, so pushes may be lost or late.
func (s *Stretch) measure(far, near float64, n int, share float64, down bool) {
	s.far, s.near, s.share, s.most = far, near, share, 0.5
	if n < manyPushes {
		s.most = 1
	}
	if down {
		s.most++
	}
}

// Regular reports whether the window is measured from push to push.
func (s *Stretch) Regular() bool { return s.most > 0 }

// Increase returns the increase in the window; since returns the increase since a position.
func (s *Stretch) Increase(since func(from float64) float64) float64 {
	plain := since(s.From)
	if !s.Regular() {
		return plain
	}
	near := since(s.near)
	return s.bounded(plain, near, since(s.far)-near)
}

// bounded is the increase of a regular number, of which the window contains a share of a push.
func (s *Stretch) bounded(plain, near, push float64) float64 {
	most := s.most * math.Abs(push)
	return max(plain-most, min(near+s.share*push, plain+most))
}

// covered is Stretch.Seconds of a series whose window is not measured from push to push.
func (m *Meter) covered(born uint32) float64 {
	return m.span(m.Now.At - time.Duration(born)*m.Clock.Tick)
}

// existed is Stretch.Span of a series: the time since its birth on the reader's clock. The clock of an origin
// stands still while the origin is down, so it gives a shorter time; and an object may have label sets of several
// origins, whose spans must compare. It is rounded to milliseconds, so that all replicas compute the same. Without
// a downtime it is covered.
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
func IncreaseSince[N int64 | float64](all []Entry, from float64, before uint64,
	value func(uint64) N) (whole N, part float64) {
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

// Read reads the entries of a number and finds its stretch. single is the number of newest entries that
// changed once in their tick (History.Singles). It returns false if there is no entry.
func (m *Meter) Read(p *History, c Coding, single uint8, born uint32) (s Stretch, before uint64, ok bool) {
	m.Entries, m.Cadence = m.Entries[:0], cadence{}
	if p.Stamp == 0 {
		return Stretch{Seconds: m.Window.Seconds(), Span: m.existed(born, m.covered(born))}, 0, false
	}
	m.Entries = p.Read(m.Logs, c, m.Entries)
	return m.stretch(m.Entries, single, born), m.Logs.Before(m.Entries[0], born), true
}
