package window

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// How much came in a window, and at what rate. Positions in receiving time are in ticks here: tick 7 is from 7 to 8, and
// a note of tick 7 says how the number stood at 8.
//
// Mostly a window is what it says: from one position to now, where the part of a tick that the window begins in counts
// by its share. A client that adds up and pushes at an interval is another matter: of a window of a minute, pushes every
// seven seconds fill eight or nine parts, so a constant stream would swing by an eighth. Such a number is read from push
// to push: the pushes of about one window, by the time in which they were gathered. That holds until the next push is
// overdue.

// Stretch is the part of a number's past that answers for a window.
type Stretch struct {
	From  float64 // where it begins
	scale float64 // what came in it stands for so much in the window
	// Where it is not the window: whatever is read off it lies between what came since these positions, an interval
	// later and earlier than the window begins. So a stream that only looks regular is never off by more than a push.
	late, early float64
	Seconds     float64 // what the increase is divided by for a rate
}

const (
	// overdueAfter is how many intervals after a push the next one is missing.
	overdueAfter = 1.25
	// SlowShare is the share of a window that a push interval should not exceed: 1 in slowShare.
	SlowShare = 3
	// SlowSlack is how much an interval may be above a third of the window: it is measured in ticks.
	SlowSlack = 1.05
	// leastInterval is the interval, in ticks, from which on changes are pushes. Closer ones may be: see past.single.
	leastInterval = 1.5
	// intervalSpread is how far intervals may differ, as a share of them, to be alike: clients sleep inexactly.
	intervalSpread = 0.5
)

// cadence is the interval, in ticks, of the newest changes of a number.
type cadence struct {
	Interval float64
	Alike    int // how many pauses in a row are alike
	first    int // the note that they began with
}

// cadenceOf looks how regularly a number changed. A pause in which the process was down says nothing.
func cadenceOf(all []Entry, resumed uint32) (p cadence) {
	p.first = len(all) - 1
	low, high, sum := math.MaxFloat64, 0.0, 0.0
	for ; p.first > 0; p.first-- {
		from, to := all[p.first-1].Tick, all[p.first].Tick
		if from <= resumed && resumed < to {
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

// Meter reads how much came in a window, of one number after the other.
type Meter struct {
	Logs     *Logs
	Clock    *Clock
	Now      Moment
	Window   time.Duration
	Shortest time.Duration // of the windows that are kept

	Entries []Entry // of the number in hand; scratch space
	Cadence cadence // of the notes
}

// stretch finds the part of a number's past that answers for the window. born is the tick of its birth.
func (m *Meter) stretch(all []Entry, single uint8, born uint32) Stretch {
	tick := m.Clock.Tick
	now, window := float64(m.Now.At)/float64(tick), float64(m.Window)/float64(tick)
	last := len(all) - 1
	age := max(m.Now.At-time.Duration(born)*tick, m.Shortest)
	plain := Stretch{From: now - window, scale: 1, Seconds: min(age, m.Window).Seconds()}
	m.Cadence = cadenceOf(all, m.Clock.resumedAt)
	p := m.Cadence
	overdue := now-float64(all[last].Tick+1) > overdueAfter*p.Interval
	if p.Alike == 0 || overdue || p.Interval*SlowShare > window*SlowSlack {
		return plain
	}
	pushes := int(math.Round(window / p.Interval))
	if p.Interval < leastInterval && int(single) < min(pushes, mostSingle) {
		return plain
	}
	if before := last - pushes; before >= p.first {
		covered := math.Round(float64(all[last].Tick-all[before].Tick)/p.Interval) * p.Interval
		return Stretch{From: float64(all[before].Tick + 1), scale: window / covered, Seconds: plain.Seconds,
			late: plain.From + p.Interval, early: plain.From - p.Interval}
	}
	if young := p.first == 0 && p.Alike >= 2 && all[0].Tick <= born+1; young {
		pushes := len(all)
		if all[0].Value == 0 {
			pushes-- // the first one began to count
		}
		gathered := time.Duration(float64(pushes) * p.Interval * float64(tick))
		return Stretch{From: 0, scale: 1, Seconds: max(gathered, m.Shortest).Seconds()}
	}
	return plain
}

// beginning finds the note in whose tick a window begins, and how much of that tick is in the window. -1: all notes are.
func beginning(all []Entry, from float64) (at int, share float64) {
	for at = len(all) - 1; at >= 0; at-- {
		if begun := float64(all[at].Tick); begun < from {
			return at, max(begun+1-from, 0)
		}
	}
	return -1, 0
}

// IncreaseSince is by how much a number grew since a window began: what all steps in it come to, and of one that it divides the
// part. The number stood at before when there was no note yet.
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

func Wholes(v uint64) int64 { return int64(v) }

// Read reads the notes of a number, and finds the part that answers for the window. False: nothing came yet.
func (m *Meter) Read(p *History, c Coding, born uint32) (s Stretch, before uint64, ok bool) {
	m.Entries, m.Cadence = m.Entries[:0], cadence{}
	if p.Stamp == 0 {
		return Stretch{scale: 1, Seconds: m.Window.Seconds()}, 0, false
	}
	m.Entries = p.Read(m.Logs, c, m.Entries)
	return m.stretch(m.Entries, p.singles(m.Logs), born), m.Logs.Before(m.Entries[0], born), true
}

// Scaled is what an increase comes to in the window, given what came since a position. A count of whole things stays
// whole where that is no more than a percent off.
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
