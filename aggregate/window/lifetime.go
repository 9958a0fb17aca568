package window

import (
	"time"
)

// Lifetimes are measured by a clock of the table's own, the lifetime clock (docs/adr/0037). It advances with the monotonic
// clock of the process, so setting the machine's clock changes no lifetime. The store keeps it: the next process
// adds the time in which no process ran. Its zero has no meaning; clock.epoch maps it to dates.
//
// A lifeStamp is a moment of it, as cells and blobs hold it.
type LifeStamp = uint32

const (
	// StampUnit is the resolution of stamps. They are rounded down; moment.since makes up for it, so no lifetime ends early.
	StampUnit = time.Second / 4
	// lifeBegins is what the lifetime clock of a new data folder shows: samples that an older format dates are before it.
	lifeBegins = 365 * 24 * time.Hour
	// FirstUnixStamp parts the stamps of this format from those of format 1, which are Unix seconds: of 2017 and later.
	FirstUnixStamp LifeStamp = 1_500_000_000
	// LongestLife is the most that the clock may show: stamps stay below firstUnixStamp for eleven years.
	LongestLife = time.Duration(FirstUnixStamp-1) * StampUnit
	// longestDown is the longest outage that the wall clock alone is believed: a longer one is a clock that is wrong.
	longestDown = 7 * 24 * time.Hour
	// clockSet is how far the wall clock leaves the monotonic one where somebody has set it. Leap seconds are less.
	clockSet = 2 * time.Second
)

func StampOf(life time.Duration) LifeStamp {
	return LifeStamp(min(life/StampUnit, time.Duration(FirstUnixStamp)-1))
}

func LifeAt(s LifeStamp) time.Duration { return time.Duration(s) * StampUnit }

func (m Moment) Stamp() LifeStamp { return StampOf(m.Life) }

// Since is how long ago a stamp was, at least.
func (m Moment) Since(s LifeStamp) time.Duration { return m.Life - LifeAt(s) - StampUnit }

// DateOf is the date of a stamp, and date that of the moment itself. The same stamp has the same date each time, until somebody
// sets the machine's clock.
func (m Moment) DateOf(s LifeStamp) time.Time { return m.Epoch.Add(LifeAt(s)) }

func (m Moment) Date() time.Time { return m.Epoch.Add(m.Life) }

// FollowWall moves the dates of the lifetime clock along when somebody has set the machine's clock.
func (c *Clock) FollowWall() {
	m := c.Now()
	if off := m.Wall.Round(0).Sub(m.Date()); off.Abs() > clockSet {
		c.epoch.Add(int64(off.Round(time.Second)))
	}
}

// Uptime is how long a boot of the machine has lasted, which nobody can set. boot is empty where that is not known.
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

// outage is how long no process has run since. The uptime tells it within one boot of the machine. Across boots there is
// the wall clock alone: where it is behind what was saved, or far ahead, it is wrong, and the outage counts as none.
func (s *SavedLife) outage(now Uptime, wall time.Time) time.Duration {
	if s.Boot != "" && s.Boot == now.Boot && s.Up <= now.Up {
		return now.Up - s.Up
	}
	if down := wall.Round(0).Sub(s.Wall); 0 < down && down <= longestDown {
		return down
	}
	return 0
}

// ResumeLifetime goes on from a lifetime clock that an earlier process had reached.
func (c *Clock) ResumeLifetime(s SavedLife) {
	now := time.Now()
	c.lived = min(s.Life+s.outage(c.Uptime(), wallOf(now)), LongestLife) - now.Sub(c.start)
	c.epoch.Store(s.Epoch)
	c.FollowWall()
}

// RestoredStamp is a stamp that was saved, of whichever format, and whether it is of an old one. None is in the future.
func (m Moment) RestoredStamp(s LifeStamp) (_ LifeStamp, old bool) {
	if s >= FirstUnixStamp {
		life := time.Unix(int64(s), 0).Sub(m.Epoch)
		s, old = StampOf(max(life, 0)), true
	}
	return min(s, m.Stamp()), old
}
