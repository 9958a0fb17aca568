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
// If an origin goes down that received the number lately, its downtime is left out. The downtime ends when
// another origin receives the number or, after the origin is back, with the next push.
type Joined struct {
	changes   []joinedChange
	first     int // index of the first change of the origin that was added last
	origins   []*Course
	born      float64        // position of the oldest birth, less the time that was left out
	begun     float64        // position of the oldest birth
	downtimes []downtime     // scratch space of leaveOutDowntime
	pushes    []int          // scratch space of pushesUntil
	reached   []int          // scratch space of intervalAtOrigins
	scratch   []joinedChange // scratch space of mergeInto
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
	// cut: entries of its origin before it were dropped, so its increase is unknown.
	cut bool
	// part: an increase of the number's second part alone, which is no push.
	part bool
	// single: the number changed once in the tick, as far as the roller saw.
	single bool
	// loose: it may have been in the tick before too (History.Record).
	loose bool
	// resumes: time was left out before it.
	resumes bool
}

// Begin starts with the next number.
func (j *Joined) Begin() {
	*j = Joined{changes: j.changes[:0], origins: j.origins[:0], downtimes: j.downtimes[:0], pushes: j.pushes[:0],
		reached: j.reached[:0], scratch: j.scratch[:0], born: math.Inf(1), begun: math.Inf(1)}
}

// Origin adds an origin. The following calls of Add are about it. born is the tick of the series'
// birth there.
func (j *Joined) Origin(c *Course, born uint32) {
	j.origins = append(j.origins, c)
	at, _ := c.extent(born)
	j.born, j.begun = min(j.born, at), min(j.begun, at)
}

// Add adds the entries of the number at the origin. single counts the newest entries that changed once in
// their tick (History.Singles). before is the value before the first entry; by returns the increase from
// one value to another.
func (j *Joined) Add(all []Entry, single uint8, before uint64, by func(from, to uint64) metric.Number) {
	j.first = len(j.changes)
	for i, entry := range all {
		j.add(entry, by(before, entry.Value), false)
		c := &j.changes[len(j.changes)-1]
		c.first, c.cut = i == 0, i == 0 && before == entry.Value
		c.single = single == mostSingle || i >= len(all)-int(single)
		if i > 1 && all[i-1].Tick == entry.Tick-1 && all[i-2].Tick == entry.Tick-2 && j.goesOn(all[i:]) {
			j.split()
		}
		before = entry.Value
	}
}

// AddPart is Add for the entries of a second part of the number, such as its fractions.
func (j *Joined) AddPart(all []Entry, before uint64, by func(from, to uint64) metric.Number) {
	at, end := j.first, len(j.changes)
	for _, entry := range all {
		for at < end && j.changes[at].tick < entry.Tick {
			at++
		}
		if grown := by(before, entry.Value); at < end && j.changes[at].tick == entry.Tick {
			j.changes[at].by = j.changes[at].by.Plus(grown)
		} else {
			j.add(entry, grown, true)
		}
		before = entry.Value
	}
	j.fractions = j.fractions || len(all) > 0
}

func (j *Joined) add(entry Entry, by metric.Number, part bool) {
	o := len(j.origins) - 1
	from, to := j.origins[o].extent(entry.Tick)
	j.changes = append(j.changes, joinedChange{from: from, to: to, by: by, tick: entry.Tick, origin: o, part: part,
		loose: j.origins[o].resumedIn(entry.Tick - 1)})
}

// goesOn reports whether a number that changed in each tick changes in the next one too, or may yet.
func (j *Joined) goesOn(all []Entry) bool {
	if len(all) > 1 {
		return all[1].Tick == all[0].Tick+1
	}
	c := j.origins[len(j.origins)-1]
	_, to := c.extent(all[0].Tick + 1)
	return to == c.Known
}

// split splits the newest change if the origin was down within its tick. Its client pushes all the
// time, so the parts share the increase by their lengths. A push a tick was in the longer part.
func (j *Joined) split() {
	c := &j.changes[len(j.changes)-1]
	from, to, down := j.origins[c.origin].afterPause(c.tick)
	if !down || to <= from {
		return
	}
	if c.single && j.changes[len(j.changes)-2].single {
		if to-from > c.to-c.from {
			c.from, c.to = from, to
		}
		return
	}
	share := (to - from) / (to - from + c.to - c.from)
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

// Increase returns the increase in the meter's window, and the stretch, for a rate. whole: the result of
// whole units is a whole number.
func (j *Joined) Increase(m *Meter, whole bool) (count metric.Number, s Stretch) {
	if j.hasCutOff() {
		return j.increaseWithCutOff(m, whole)
	}
	j.trim()
	j.sort()
	j.guessFirst(-float64(m.Logs.Horizon - 1))
	m.Cadence = cadence{}
	j.leaveOutDowntime()
	count, s = j.increaseAsOf(0, m, whole)
	known := j.known()
	if known == 0 || s.Regular() && m.Cadence.Interval >= leastInterval {
		return count, s
	}
	earlier, over := j.increaseAsOf(known, m, whole)
	if regular := over.Regular(); regular && !s.Regular() ||
		regular == s.Regular() && math.Abs(earlier.Float64()) >= math.Abs(count.Float64()) {
		return earlier, over
	}
	return count, s
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
		for end < len(j.changes) && j.changes[end].follows(&j.changes[end-1]) {
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

// follows reports whether a change is in the tick after another one at its origin, which was not down
// in between.
func (c *joinedChange) follows(o *joinedChange) bool {
	return c.origin == o.origin && c.tick == o.tick+1 && c.from <= o.to
}

const (
	// leastRun is the number of changes in adjacent ticks from which an origin received all the time.
	leastRun = 4
	// mostTrimmed is the most ticks that two changes can take.
	mostTrimmed = 2.5
)

// trimFirst places the first two changes before the third, at its rate.
func trimFirst(run []joinedChange) {
	if run[0].cut {
		return
	}
	rate := meanOf(run[2 : len(run)-1])
	a, b := run[0].by.Float64()/rate, run[1].by.Float64()/rate
	if a >= 0 && b >= 0 && a+b <= mostTrimmed {
		run[1].from = run[1].to - b
		run[0].from, run[0].to = run[1].from-a, run[1].from
	}
}

// meanOf is the mean increase of the first of some changes, mostMean at most.
func meanOf(all []joinedChange) float64 {
	all = all[:min(len(all), mostMean)]
	if len(all) == 0 {
		return 0
	}
	sum := 0.0
	for i := range all {
		sum += all[i].by.Float64()
	}
	return sum / float64(len(all))
}

// mostMean is the number of changes that make a mean: the number of pushes in a tick may change.
const mostMean = 10

// trimLast places the last two changes after the third to last, at its rate.
func trimLast(run []joinedChange, known float64) {
	n := len(run)
	rate := meanOf(run[max(n-2-mostMean, 1) : n-2])
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

// increaseAsOf is Increase as of a position.
func (j *Joined) increaseAsOf(now float64, m *Meter, whole bool) (metric.Number, Stretch) {
	s, before, end := j.stretch(now, m)
	n, part := j.between(s.From, now)
	_, _, exact := n.Decimal()
	exact = exact && !j.fractions
	switch {
	case s.Regular():
		near := 0.0
		for _, c := range j.changes[before+1 : end] {
			near += c.by.Float64()
		}
		v := s.bounded(n.Float64()+part, near, j.changes[before].by.Float64())
		if exact && whole {
			v = math.Round(v)
		}
		return metric.Computed(v), s
	case part == 0:
		return n, s
	case exact:
		return n.Plus(metric.Int(int64(math.Round(part)))), s
	}
	return metric.Computed(n.Float64() + part), s
}

// between is the increase between two positions: the changes between them, and the shares of others.
func (j *Joined) between(from, to float64) (n metric.Number, part float64) {
	for i := range j.changes {
		c := &j.changes[i]
		switch share := c.share(from, to); {
		case share == 1:
			n = n.Plus(c.by)
		case share > 0:
			part += c.by.Float64() * share
		}
	}
	return n, part
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

// stretch is Meter.stretch for the joined changes, as of a position. If the number is regular, before is
// the index of the push of which the window has a share, and the pushes after it end before end.
func (j *Joined) stretch(now float64, m *Meter) (s Stretch, before, end int) {
	tick := m.Clock.Tick
	window := float64(m.Window) / float64(tick)
	since := func(birth float64) float64 { return m.span(time.Duration(min(now-birth, window) * float64(tick))) }
	s.From, s.Seconds, s.Span = now-window, since(j.born), since(j.begun)
	pushes := j.pushesUntil(now)
	if len(pushes) == 0 {
		return s, 0, 0
	}
	m.Cadence = j.cadenceOf(pushes)
	p, last := m.Cadence, len(pushes)-1
	newest := j.changes[pushes[last]].from
	n, share, ok := p.pushes(window, now-(newest+1))
	first := last - n
	switch {
	case !ok, p.Interval < leastPushATick, !j.single(pushes[max(last-p.alone(n), p.first)+1:]):
		return s, 0, 0
	case p.regular(first, n, j.changes[pushes[p.first]].cut || j.changes[pushes[p.first]].to <= s.From):
	case first < 0 && p.first == 0 && p.Alike >= leastYoung && j.changes[0].from <= j.born+1:
		s.Seconds = m.gathered(len(pushes), p.Interval, s.Seconds)
		return s, 0, 0
	default:
		return s, 0, 0
	}
	before, end = pushes[first], pushes[last]+1
	for end < len(j.changes) && j.changes[end].part && j.changes[end].from == newest {
		end++
	}
	s.measure(0, 0, n, share, j.resumesWithin(before+1, pushes[last]))
	return s, before, end
}

// single reports whether each of some changes is a single push.
func (j *Joined) single(pushes []int) bool {
	return !slices.ContainsFunc(pushes, func(i int) bool { return !j.changes[i].single })
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

// cadenceOf is the cadence of joined pushes.
func (j *Joined) cadenceOf(pushes []int) (p cadence) {
	for p.first = len(pushes) - 1; p.first > 0; p.first-- {
		before, after := &j.changes[pushes[p.first-1]], &j.changes[pushes[p.first]]
		if after.cut {
			break
		}
		if before.loose || after.loose || j.resumesWithin(pushes[p.first-1]+1, pushes[p.first]) {
			p.skip(after.from - before.from)
		} else if !p.take(after.from - before.from) {
			break
		}
	}
	if at := j.intervalAtOrigins(pushes[p.first:]); at > 0 {
		p.Interval = at
	}
	return p
}

// intervalAtOrigins is the mean interval of pushes, measured between pushes to one origin, since the
// origins' ticks begin at different moments; 0: there are none.
func (j *Joined) intervalAtOrigins(pushes []int) float64 {
	j.reached = slices.Grow(j.reached[:0], len(j.origins))[:len(j.origins)]
	clear(j.reached)
	ticks, steps, since := 0.0, 0, 0
	for i := range pushes {
		c := &j.changes[pushes[i]]
		if i > 0 && (c.loose || j.changes[pushes[i-1]].loose || j.resumesWithin(pushes[i-1]+1, pushes[i])) {
			since = i // a pause that isn't measured
		}
		last := &j.reached[c.origin]
		if *last > since {
			ticks += c.from - j.changes[pushes[*last-1]].from
			steps += i - (*last - 1)
		}
		*last = i + 1
	}
	if steps == 0 {
		return 0
	}
	return ticks / float64(steps)
}

// resumesWithin reports whether time was left out before a change from one index to another.
func (j *Joined) resumesWithin(from, to int) bool {
	return slices.ContainsFunc(j.changes[from:to+1], func(c joinedChange) bool { return c.resumes })
}
