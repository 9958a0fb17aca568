package window

import (
	"slices"
	"time"
)

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
	for _, one := range all {
		p.ticks = append(p.ticks, uint32(one.At/tick))
	}
	return p
}

// within reports whether the clock resumed between two entries, after it was down for a tick or more. The first entry may also have been in the tick before (History.Record).
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
