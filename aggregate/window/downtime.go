package window

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// downtime is a time in which an origin received nothing.
type downtime struct {
	origin   int
	from, to float64
}

// leaveOutDowntime moves changes before the downtimes of origins forward, the oldest first.
func (j *Joined) leaveOutDowntime() {
	j.downtimes = j.downtimes[:0]
	for i, c := range j.origins {
		for k := 1; k < len(c.spans); k++ {
			j.downtimes = append(j.downtimes, downtime{i, c.spans[k].from + c.spans[k-1].shift,
				c.spans[k].from + c.spans[k].shift})
		}
		if c.Standing {
			j.downtimes = append(j.downtimes, downtime{i, c.Known, 0})
		}
	}
	slices.SortFunc(j.downtimes, func(a, b downtime) int { return cmp.Compare(a.from, b.from) })
	for _, d := range j.downtimes {
		j.leaveOut(d)
	}
}

// leaveOut leaves out the time in which an origin was down, if it received the number lately. Of a
// client that pushes at an interval, the pause over the downtime becomes one interval.
func (j *Joined) leaveOut(d downtime) {
	last, next := -1, -1
	for i := range j.changes {
		switch c := &j.changes[i]; {
		case c.before(d.origin, d.from):
			last = i
		case next < 0:
			next = i
		}
	}
	if last < 0 || !j.receivedLately(last, d) {
		return
	}
	interval, cut := j.intervalUntil(last, d), d.from
	if leastPushATick <= interval && interval < leastInterval {
		last, next, cut = j.lastPush(last, next, interval, d)
	}
	gap := j.gap(last, next, interval, downtime{d.origin, cut, d.to})
	if gap <= 0 {
		return
	}
	for i := range j.changes {
		if c := &j.changes[i]; next < 0 || i < next || c.before(d.origin, d.from) {
			c.from += gap
			c.to = min(c.to, cut) + gap
		}
	}
	if j.born < d.from {
		j.born += gap
	}
	if next >= 0 {
		j.changes[next].resumes = true
	}
	j.sort()
}

// gap is the time to leave out. The downtime cuts a client's interval at any moment, so the next push
// is due within an interval after it.
func (j *Joined) gap(last, next int, interval float64, d downtime) float64 {
	if interval < leastInterval {
		return j.resumed(last, next, d) - d.from
	}
	to := min(d.to+interval, 0)
	if next >= 0 {
		to = min(to, j.changes[next].from)
	}
	return to - max(d.from, j.changes[last].from+interval)
}

// leastPushATick is the least interval, in ticks, at which a number may be pushed once a tick. One
// that two origins receive in each tick changes twice as often.
const leastPushATick = 0.9

// lastPush is for a number that may be pushed once a tick. It returns the last change before a downtime,
// the next one, and the position at which the number ended. A push stands for all of its tick, even if the
// origin was down for the rest of it.
func (j *Joined) lastPush(last, next int, interval float64, d downtime) (_, _ int, ended float64) {
	for next >= 0 && j.resumedAt(last, next) < d.from {
		for last = next; next < len(j.changes) && (next <= last || j.changes[next].before(d.origin, d.from)); {
			next++
		}
		if next == len(j.changes) {
			next = -1
		}
	}
	ended = j.endOf(last, interval)
	return last, next, min(max(ended, d.from-1), d.from+1, d.to)
}

// endOf is the position at which a number ended that was pushed once a tick, or all the time: the last
// change lasts as long as it would at the rate before. A roll may count samples in the tick before, so two
// adjacent changes are measured together.
func (j *Joined) endOf(last int, interval float64) float64 {
	c := &j.changes[last]
	before := j.beforeAtOrigin(last)
	if before < 0 {
		return c.from + interval
	}
	b, n := &j.changes[before], c.by.Float64()
	if a := j.beforeAtOrigin(before); a >= 0 && c.tick == b.tick+1 && b.tick == j.changes[a].tick+1 {
		if n = (b.by.Float64() + n) / j.rateBefore(last); n >= 0 {
			return max(b.from+min(n, 2), c.from)
		}
	}
	if n /= b.by.Float64(); n >= 0 {
		return c.from + min(n, 1)*interval
	}
	return c.from + interval
}

// beforeAtOrigin returns the index of the change before one at its origin, or -1.
func (j *Joined) beforeAtOrigin(at int) int {
	for i := at - 1; i >= 0; i-- {
		if j.changes[i].origin == j.changes[at].origin {
			return i
		}
	}
	return -1
}

// lately is the number of changes among which an origin that goes down must have one.
const lately = 4

// receivedLately reports whether an origin received one of the last changes before it went down.
func (j *Joined) receivedLately(last int, d downtime) bool {
	for i, n := last, 0; i >= 0 && n < lately; i-- {
		if c := &j.changes[i]; c.before(d.origin, d.from) {
			if c.origin == d.origin {
				return true
			}
			n++
		}
	}
	return false
}

// intervalUntil is the interval of the pushes before a downtime.
func (j *Joined) intervalUntil(last int, d downtime) float64 {
	j.pushes = j.pushes[:0]
	for i := range last + 1 {
		if c := &j.changes[i]; !c.part && c.before(d.origin, d.from) {
			j.pushes = append(j.pushes, i)
		}
	}
	if len(j.pushes) == 0 {
		return 0
	}
	return j.cadenceOf(j.pushes).Interval
}

// before reports whether a change was before an origin went down. A change of another origin in a
// tick that had not ended counts as later.
func (c *joinedChange) before(origin int, down float64) bool {
	return c.to <= down || c.origin == origin && c.from < down
}

// resumed is the position at which a number was received again after a downtime. If the client
// pushed all the time before, the first change after it is narrowed by the rate before.
func (j *Joined) resumed(last, next int, d downtime) float64 {
	if next < 0 {
		return d.to
	}
	return min(d.to, max(j.resumedAt(last, next), d.from))
}

func (j *Joined) resumedAt(last, next int) float64 {
	c := &j.changes[next]
	if rate := j.rateBefore(last); rate > 0 && c.by.Float64() > 0 {
		return max(c.from, c.to-c.by.Float64()/rate)
	}
	return c.from
}

// rateBefore is the mean increase of an origin in adjacent ticks up to the second before a change; 0:
// there is none.
func (j *Joined) rateBefore(last int) float64 {
	var all [mostMean]joinedChange
	n, tick := 0, j.changes[last].tick-2
	for i := last - 1; i >= 0 && n < mostMean; i-- {
		switch c := &j.changes[i]; {
		case c.origin != j.changes[last].origin || c.tick > tick:
		case c.tick < tick:
			return meanOf(all[:n])
		default:
			all[n], tick, n = *c, tick-1, n+1
		}
	}
	return meanOf(all[:n])
}

// Pause is a time in which no process counted receiving time: it stood at At for Down.
type Pause struct{ At, Down time.Duration }

// MostPauses is the number of pauses that a clock remembers.
const MostPauses = mostRuns - 1

// pausesFor is the receiving time for which pauses are remembered, at least: deletions that a replica
// hears of late are up to a day old (AtOf).
const pausesFor = 24 * time.Hour

// pauses are the newest pauses of a clock, the oldest first. They never change.
type pauses struct {
	all   []Pause
	ticks []uint32 // in which the clock resumed
	tick  time.Duration
}

func pausesOf(all []Pause, tick time.Duration) *pauses {
	p := &pauses{all: all, tick: tick}
	for _, pause := range all {
		p.ticks = append(p.ticks, uint32(pause.At/tick))
	}
	return p
}

// within reports whether the clock resumed between two entries, after it was down for a tick or more. The
// first entry may also have been in the tick before (History.Record).
func (p *pauses) within(from, to uint32) bool {
	for i, tick := range slices.Backward(p.ticks) {
		if tick+1 < from {
			break
		}
		if tick < to && p.all[i].Down >= p.tick {
			return true
		}
	}
	return false
}

// Pauses returns the pauses of the process that the clock remembers, the oldest first.
func (c *Clock) Pauses() []Pause { return c.pauses.Load().all }

// pause adds a pause to those of earlier processes.
func (c *Clock) pause(earlier []Pause, p Pause) {
	all := slices.DeleteFunc(slices.Clone(earlier), func(one Pause) bool { return p.At-one.At > max(c.reach, pausesFor) })
	all = append(all[max(len(all)+1-MostPauses, 0):], p)
	c.pauses.Store(pausesOf(all, c.Tick))
}

// bootID returns the kernel's ID of the current boot, which is equal in all containers, or the
// empty string if it is unknown.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

// machineUptime reads the kernel's monotonic clock. It starts at boot, is equal for all processes,
// and stops while the machine sleeps, like the monotonic clock of a Go process.
func machineUptime() Uptime {
	var up unix.Timespec
	if bootID() == "" || unix.ClockGettime(unix.CLOCK_MONOTONIC, &up) != nil {
		return Uptime{}
	}
	return Uptime{bootID(), time.Duration(up.Nano())}
}
