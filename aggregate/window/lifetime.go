package window

import (
	"time"
)

// LifeStamp is a moment of the lifetime clock (docs/adr/0037), as cells and blobs hold it. The
// lifetime clock advances with the monotonic clock of the process, so setting the machine's clock
// changes no lifetime. The store saves it; the next process adds the time in which no process ran.
// Its zero has no meaning; Clock.epoch maps it to dates.
type LifeStamp = uint32

const (
	// StampUnit is the resolution of stamps. They are rounded down; Since makes up for it, so no
	// lifetime ends early.
	StampUnit = time.Second / 4
	// lifeBegins is the reading in a new data folder: later than the samples of older formats.
	lifeBegins = 365 * 24 * time.Hour
	// FirstUnixStamp separates the stamps of this format from those of format 1: Unix seconds of
	// 2017 and later.
	FirstUnixStamp LifeStamp = 1_500_000_000
	// LongestLife is the largest reading: stamps stay below FirstUnixStamp for eleven years.
	LongestLife = time.Duration(FirstUnixStamp-1) * StampUnit
	// longestDown is the longest outage for which the wall clock alone is trusted.
	longestDown = 7 * 24 * time.Hour
	// clockSet is the difference between wall and monotonic clock that means that the clock was
	// set. Leap seconds are smaller.
	clockSet = 2 * time.Second
)

func StampOf(life time.Duration) LifeStamp {
	return LifeStamp(min(life/StampUnit, time.Duration(FirstUnixStamp)-1))
}

func LifeAt(s LifeStamp) time.Duration { return time.Duration(s) * StampUnit }

func (m Moment) Stamp() LifeStamp { return StampOf(m.Life) }

// Since is the time since a stamp, at least.
func (m Moment) Since(s LifeStamp) time.Duration { return m.Life - LifeAt(s) - StampUnit }

// DateOf is the date of a stamp: the same each time, until the machine's clock is set.
func (m Moment) DateOf(s LifeStamp) time.Time { return m.Epoch.Add(LifeAt(s)) }

func (m Moment) Date() time.Time { return m.Epoch.Add(m.Life) }

// FollowWall moves the dates of the lifetime clock after the machine's clock was set.
func (c *Clock) FollowWall() {
	m := c.Now()
	if off := m.Wall.Round(0).Sub(m.Date()); off.Abs() > clockSet {
		c.epoch.Add(int64(off.Round(time.Second)))
	}
}

// Uptime is the time since the machine booted, which nobody can set; boot is empty if unknown.
type Uptime struct {
	Boot string
	Up   time.Duration
}

// SavedLife is the lifetime clock as an earlier process saved it.
type SavedLife struct {
	Life  time.Duration
	Epoch int64 // Unix nanoseconds of the lifetime clock's zero
	Wall  time.Time
	Uptime
}

// Begin sets a new lifetime clock, whose stamps fall on whole seconds.
func (s *SavedLife) Begin() {
	began := s.Wall.Add(-lifeBegins).Truncate(time.Second)
	s.Life, s.Epoch = s.Wall.Round(0).Sub(began), began.UnixNano()
}

// outage is the time in which no process ran. Within one boot the uptime tells it. Across boots
// there is the wall clock alone: if it is behind the saved one, or far ahead, it is wrong and the
// outage counts as zero.
func (s *SavedLife) outage(now Uptime, wall time.Time) time.Duration {
	if s.Boot != "" && s.Boot == now.Boot && s.Up <= now.Up {
		return now.Up - s.Up
	}
	if down := wall.Round(0).Sub(s.Wall); 0 < down && down <= longestDown {
		return down
	}
	return 0
}

// ResumeLifetime continues the lifetime clock of an earlier process.
func (c *Clock) ResumeLifetime(s SavedLife) {
	now := time.Now()
	c.lived = min(s.Life+s.outage(c.Uptime(), wallOf(now)), LongestLife) - now.Sub(c.start)
	c.epoch.Store(s.Epoch)
	c.FollowWall()
}

// RestoredStamp converts a saved stamp of any format, and reports whether it is an old one. No
// stamp is in the future.
func (m Moment) RestoredStamp(s LifeStamp) (_ LifeStamp, old bool) {
	if s >= FirstUnixStamp {
		life := time.Unix(int64(s), 0).Sub(m.Epoch)
		s, old = StampOf(max(life, 0)), true
	}
	return min(s, m.Stamp()), old
}
