package window

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Joined measures the increase of one number that several origins counted. It lays the changes of
// all of them on one axis: positions in ticks, 0 is the moment of the read. A client that alternates
// between the origins, or moved from one to another, then reads like a client of one origin.
//
// What an origin received in the last half second may not be here yet. So the number is read as of
// the last moment that all origins have told of, and as of now; the larger increase counts.
//
// Time in which an origin was down is no time for a number that it received last. It ends when the
// origin is back, or when another origin receives the number.
type Joined struct {
	changes []joinedChange
	first   int // index of the first change of the origin that was added last
	origins []*Course
	born    float64        // position of the oldest birth
	cuts    []float64      // positions where time was left out
	pushes  []int          // scratch space of pushesUntil
	scratch []joinedChange // scratch space of mergeInto
	// fractions: some changes have no whole units.
	fractions bool
}

// joinedChange is an increase within a tick of an origin.
type joinedChange struct {
	from, to float64
	by       metric.Number
	tick     uint32 // at its origin
	origin   int
	first    bool // of its origin
	// part: an increase of the number's second part alone, which is no push.
	part bool
}

// Begin starts with the next number.
func (j *Joined) Begin() {
	*j = Joined{changes: j.changes[:0], origins: j.origins[:0], cuts: j.cuts[:0], pushes: j.pushes[:0], scratch: j.scratch[:0], born: math.Inf(1)}
}

// Origins is the number of origins added.
func (j *Joined) Origins() int { return len(j.origins) }

// Origin adds an origin. The following calls of Add are about it. born is the tick of the series'
// birth there.
func (j *Joined) Origin(c *Course, born uint32) {
	j.origins = append(j.origins, c)
	at, _ := c.extent(born)
	j.born = min(j.born, at)
}

// Add adds the entries of the number at the origin. before is the value before the first entry, and
// by the increase from one value to another.
func (j *Joined) Add(all []Entry, before uint64, by func(from, to uint64) metric.Number) {
	j.first = len(j.changes)
	for i, one := range all {
		j.add(one, by(before, one.Value), false)
		j.changes[len(j.changes)-1].first = i == 0
		j.split(i > 0 && all[i-1].Tick == one.Tick-1)
		before = one.Value
	}
}

// AddPart is Add for the entries of a second part of the number, such as its fractions.
func (j *Joined) AddPart(all []Entry, before uint64, by func(from, to uint64) metric.Number) {
	at, end := j.first, len(j.changes)
	for _, one := range all {
		for at < end && j.changes[at].tick < one.Tick {
			at++
		}
		if grown := by(before, one.Value); at < end && j.changes[at].tick == one.Tick {
			j.changes[at].by = j.changes[at].by.Plus(grown)
		} else {
			j.add(one, grown, true)
		}
		before = one.Value
	}
	j.fractions = j.fractions || len(all) > 0
}

func (j *Joined) add(one Entry, by metric.Number, part bool) {
	o := len(j.origins) - 1
	from, to := j.origins[o].extent(one.Tick)
	j.changes = append(j.changes, joinedChange{from: from, to: to, by: by, tick: one.Tick, origin: o, part: part})
}

// split splits the newest change if the origin was down within its tick. If the origin received the
// number all the time, the parts share the increase by their lengths. Else it was one push: it counts
// in the longer part.
func (j *Joined) split(steady bool) {
	c := &j.changes[len(j.changes)-1]
	from, to, down := j.origins[c.origin].afterPause(c.tick)
	if !down || to <= from {
		return
	}
	share := (to - from) / (to - from + c.to - c.from)
	if !steady {
		if share > 0.5 {
			c.from, c.to = to-1, to // as long as other changes, for the cadence
		}
		return
	}
	later := *c
	later.from, later.to = from, to
	n := c.by.Float64() * share
	if _, _, exact := c.by.Decimal(); exact {
		n = math.Round(n)
		later.by, c.by = metric.Int(int64(n)), c.by.Plus(metric.Int(-int64(n)))
	} else {
		later.by, c.by = metric.Float(n), metric.Float(c.by.Float64()-n)
	}
	j.changes = append(j.changes, later)
}

// Increase returns the increase in the meter's window, and the divisor for a rate. whole: the result
// is rounded if that changes it by at most 1 %.
func (j *Joined) Increase(m *Meter, whole bool) (count metric.Number, seconds float64) {
	j.trim()
	j.sort()
	j.guessFirst(-float64(m.Logs.Horizon - 1))
	m.Cadence = cadence{}
	j.leaveOutDowntime()
	count, seconds, sure := j.increaseAsOf(0, m, whole)
	if known := j.known(); known < 0 && !sure {
		earlier, over, sure := j.increaseAsOf(known, m, whole)
		if sure || math.Abs(earlier.Float64()) >= math.Abs(count.Float64()) {
			count, seconds = earlier, over
		}
	}
	return count, seconds
}

// guessFirst replaces an origin's first change by the next one if it is older than every window: when
// the log was shortened, the first entry may stand for all before, or for none.
func (j *Joined) guessFirst(oldest float64) {
	for i := range j.changes[:max(len(j.changes)-1, 0)] {
		if c := &j.changes[i]; c.first && c.from <= oldest {
			c.by = j.changes[i+1].by
		}
	}
}

// sort orders the changes by position. Those of each origin are in order already.
func (j *Joined) sort() {
	all := j.changes
	for end := 1; end < len(all); end++ {
		if all[end].from >= all[end-1].from {
			continue
		}
		begin := end
		for end < len(all) && (end == begin || all[end].from >= all[end-1].from) {
			end++
		}
		j.mergeInto(begin, end)
		end--
	}
}

// mergeInto merges the changes from begin to end, which are in order, with those before.
func (j *Joined) mergeInto(begin, end int) {
	j.scratch = append(j.scratch[:0], j.changes[begin:end]...)
	to, a := end-1, begin-1
	for b := len(j.scratch) - 1; b >= 0; to-- {
		if a >= 0 && j.changes[a].from > j.scratch[b].from {
			j.changes[to] = j.changes[a]
			a--
		} else {
			j.changes[to] = j.scratch[b]
			b--
		}
	}
}

// trim narrows the first and the last changes of each time in which an origin received the number
// all the time. A client that moves does so within a tick, and both origins would spread what they
// received in it over the whole tick. A roll counts samples of the last half tick in the tick before,
// so two changes are narrowed on each side.
func (j *Joined) trim() {
	for at := 0; at < len(j.changes); {
		end := at + 1
		for end < len(j.changes) && j.changes[end].origin == j.changes[at].origin && j.changes[end].tick == j.changes[end-1].tick+1 {
			end++
		}
		if run := j.changes[at:end]; len(run) >= leastRun {
			trimFirst(run)
			if c := j.origins[run[0].origin]; c.Standing || c.Known-run[len(run)-1].to >= 1 {
				trimLast(run, c.Known)
			}
		}
		at = end
	}
}

const (
	// leastRun is the number of changes in adjacent ticks from which an origin received all the time.
	leastRun = 4
	// mostTrimmed is the most ticks that two changes can take.
	mostTrimmed = 2.5
)

// trimFirst places the first two changes before the third, at its rate.
func trimFirst(run []joinedChange) {
	rate := run[2].by.Float64()
	a, b := run[0].by.Float64()/rate, run[1].by.Float64()/rate
	if a >= 0 && b >= 0 && a+b <= mostTrimmed {
		run[1].from = run[1].to - b
		run[0].from, run[0].to = run[1].from-a, run[1].from
	}
}

// trimLast places the last two changes after the third to last, at its rate.
func trimLast(run []joinedChange, known float64) {
	n := len(run)
	rate := run[n-3].by.Float64()
	a, b := run[n-2].by.Float64()/rate, run[n-1].by.Float64()/rate
	if a >= 0 && b >= 0 && a+b <= mostTrimmed {
		run[n-2].to = min(run[n-2].from+a, known)
		run[n-1].from, run[n-1].to = run[n-2].to, min(run[n-2].to+b, known)
	}
}

// known is the last position that all origins have told of.
func (j *Joined) known() (at float64) {
	for _, c := range j.origins {
		if !c.Standing {
			at = min(at, c.Known)
		}
	}
	return at
}

// increaseAsOf is Increase as of a position. sure is set if it was measured from push to push.
func (j *Joined) increaseAsOf(now float64, m *Meter, whole bool) (n metric.Number, seconds float64, sure bool) {
	s, pushed := j.stretch(now, m)
	if pushed == nil {
		return j.between(s.From, now), s.Seconds, false
	}
	for i := range pushed {
		n = n.Plus(pushed[i].by)
	}
	if s.early == s.late {
		return metric.Computed(n.Float64() * s.scale), s.Seconds, true
	}
	since := func(from float64) float64 { return j.between(from, now).Float64() }
	return s.Scaled(n, whole && !j.fractions, since), s.Seconds, true
}

// between is the increase between two positions.
func (j *Joined) between(from, to float64) (n metric.Number) {
	part := 0.0
	for i := range j.changes {
		c := &j.changes[i]
		switch share := c.share(from, to); {
		case share == 1:
			n = n.Plus(c.by)
		case share > 0:
			part += c.by.Float64() * share
		}
	}
	if part == 0 {
		return n
	}
	if _, _, exact := n.Decimal(); exact && !j.fractions {
		return n.Plus(metric.Int(int64(math.Round(part))))
	}
	return metric.Computed(n.Float64() + part)
}

// share is the share of a change between two positions.
func (c *joinedChange) share(from, to float64) float64 {
	if c.from >= from && c.to <= to {
		return 1
	}
	if c.to <= from || c.from >= to {
		return 0
	}
	return (min(c.to, to) - max(c.from, from)) / (c.to - c.from)
}

// stretch is Meter.stretch for the joined changes, as of a position. If the stretch is not the window
// itself, pushed are its changes.
func (j *Joined) stretch(now float64, m *Meter) (s Stretch, pushed []joinedChange) {
	tick := m.Clock.Tick
	window := float64(m.Window) / float64(tick)
	age := max(time.Duration(min(now-j.born, window)*float64(tick)), m.Shortest)
	plain := Stretch{From: now - window, scale: 1, Seconds: min(age, m.Window).Seconds()}
	pushes := j.pushesUntil(now)
	if len(pushes) == 0 {
		return plain, nil
	}
	p := j.cadenceOf(pushes)
	m.Cadence = p
	last := len(pushes) - 1
	newest := j.changes[pushes[last]].from
	overdue := now-(newest+1) > overdueAfter*p.Interval
	if p.Alike == 0 || overdue || p.Interval < leastInterval || p.Interval*SlowShare > window*SlowSlack {
		return plain, nil
	}
	end := pushes[last] + 1
	for end < len(j.changes) && j.changes[end].part && j.changes[end].from == newest {
		end++
	}
	n := int(math.Round(window / p.Interval))
	if before := max(last-n, p.first); before == last-n || before == last-n+1 && j.changes[pushes[before]].from <= plain.From {
		covered := float64(last-before) * p.Interval
		s := Stretch{scale: window / covered, Seconds: plain.Seconds, late: plain.From + p.Interval, early: plain.From - p.Interval}
		if before > last-n {
			s.early = s.late // the entries before were dropped
		}
		return s, j.changes[pushes[before]+1 : end]
	}
	if young := p.first == 0 && p.Alike >= 2 && j.changes[0].from <= j.born+1; young {
		gathered := time.Duration(float64(len(pushes)) * p.Interval * float64(tick))
		return Stretch{scale: 1, Seconds: max(gathered, m.Shortest).Seconds()}, j.changes[:end]
	}
	return plain, nil
}

// pushesUntil returns the indices of the changes that were complete at a position.
func (j *Joined) pushesUntil(now float64) []int {
	j.pushes = j.pushes[:0]
	for i := range j.changes {
		if c := &j.changes[i]; !c.part && c.to <= now {
			j.pushes = append(j.pushes, i)
		}
	}
	return j.pushes
}

// crossSpread is the least difference from the mean at which a pause between two origins counts as
// another interval: the origins' ticks begin at different moments, so it is off by a tick.
const crossSpread = 1.25

// cadenceOf is the cadence of joined pushes.
func (j *Joined) cadenceOf(pushes []int) (p cadence) {
	p.first = len(pushes) - 1
	low, high, sum := math.MaxFloat64, 0.0, 0.0
	for ; p.first > 0; p.first-- {
		before, after := &j.changes[pushes[p.first-1]], &j.changes[pushes[p.first]]
		if slices.ContainsFunc(j.cuts, func(cut float64) bool { return before.from <= cut && cut < after.from }) {
			continue
		}
		pause := after.from - before.from
		mean := (sum + pause) / float64(p.Alike+1)
		if before.origin == after.origin {
			low, high = min(low, pause), max(high, pause)
		}
		if high-low > max(1, mean*intervalSpread) || math.Abs(pause-mean) > max(crossSpread, mean*intervalSpread) {
			break
		}
		sum += pause
		p.Alike++
		p.Interval = mean
	}
	return p
}

// leaveOutDowntime moves changes before an origin's downtime forward.
func (j *Joined) leaveOutDowntime() {
	for i, c := range j.origins {
		for k := 1; k < len(c.spans); k++ {
			j.leaveOut(i, c.spans[k].from+c.spans[k-1].shift, c.spans[k].from+c.spans[k].shift)
		}
		if c.Standing {
			j.leaveOut(i, c.Known, 0)
		}
	}
}

// leaveOut leaves out the time in which an origin was down, if it received the number last.
func (j *Joined) leaveOut(origin int, down, up float64) {
	last, next := -1, -1
	for i := range j.changes {
		switch c := &j.changes[i]; {
		case c.before(origin, down):
			last = i
		case next < 0:
			next = i
		}
	}
	if last < 0 || j.changes[last].origin != origin {
		return
	}
	if next >= 0 {
		up = min(up, max(j.resumedAt(last, next), down))
	}
	gap := up - max(down, j.dueAfter(last, origin, down))
	if gap <= 0 {
		return
	}
	for i := range j.changes {
		if c := &j.changes[i]; c.before(origin, down) {
			c.from += gap
			c.to = min(c.to, down) + gap
		}
	}
	if j.born < down {
		j.born += gap
	}
	j.cuts = append(j.cuts, up-0.001)
	j.sort()
}

// dueAfter is the position at which the next push was due after the last one before a downtime. The
// pause until then is none of the downtime.
func (j *Joined) dueAfter(last, origin int, down float64) float64 {
	const pauses = 4
	first, n := last, 0
	for i := last - 1; i >= 0 && n < pauses; i-- {
		if j.changes[i].before(origin, down) {
			first, n = i, n+1
		}
	}
	if interval := (j.changes[last].from - j.changes[first].from) / float64(max(n, 1)); interval >= leastInterval {
		return j.changes[last].from + interval
	}
	return down
}

// before reports whether a change was before an origin went down. A change of another origin in a
// tick that had not ended counts as later.
func (c *joinedChange) before(origin int, down float64) bool {
	return c.to <= down || c.origin == origin && c.from < down
}

// resumedAt is the position at which a number was received again after a downtime. If the client
// pushed all the time before, the first change after it is narrowed by the rate before.
func (j *Joined) resumedAt(last, next int) float64 {
	c := &j.changes[next]
	for i := last; i >= 0; i-- {
		before := &j.changes[i]
		if before.origin == j.changes[last].origin && before.tick == j.changes[last].tick-2 {
			if ticks := c.by.Float64() / before.by.Float64(); ticks > 0 {
				return max(c.from, c.to-ticks)
			}
		}
		if before.tick+2 < j.changes[last].tick && before.origin == j.changes[last].origin {
			break
		}
	}
	return c.from
}
