package window

import (
	"time"
)

// LifeStamp is a reading of the lifetime clock (docs/adr/0037) in cells and blobs. The lifetime
// clock advances with the monotonic clock of the process, so setting the machine's clock changes no
// lifetime. The store saves the reading, and the next process adds the time in which no process
// ran. Zero is an arbitrary moment; Clock.epoch maps readings to dates.
type LifeStamp = uint32

const (
	// StampUnit is the resolution of stamps. They are rounded down. Since compensates for that, so
	// no lifetime ends early.
	StampUnit = time.Second / 4
	// lifeBegins is the first reading in a new data folder. It exceeds the age of samples from
	// older formats.
	lifeBegins = 365 * 24 * time.Hour
	// FirstUnixStamp is the least stamp of format 1, which had Unix seconds (2017 and later). All
	// stamps of the current format are smaller.
	FirstUnixStamp LifeStamp = 1_500_000_000
	// LongestLife is the largest reading. Stamps remain below FirstUnixStamp for eleven years.
	LongestLife = time.Duration(FirstUnixStamp-1) * StampUnit
	// longestDown is the longest outage that is accepted from the wall clock alone.
	longestDown = 7 * 24 * time.Hour
	// clockSet is the difference between wall and monotonic clock from which the machine's clock
	// counts as set. It exceeds a leap second.
	clockSet = 2 * time.Second
)

// StampOf rounds a reading down to a stamp.
func StampOf(life time.Duration) LifeStamp {
	return LifeStamp(min(life/StampUnit, time.Duration(FirstUnixStamp)-1))
}

// LifeAt returns the reading of a stamp.
func LifeAt(s LifeStamp) time.Duration { return time.Duration(s) * StampUnit }

// Stamp returns the stamp of the moment.
func (m Moment) Stamp() LifeStamp { return StampOf(m.Life) }

// Since returns a lower bound of the time since a stamp.
func (m Moment) Since(s LifeStamp) time.Duration { return m.Life - LifeAt(s) - StampUnit }

// DateOf returns the date of a stamp. It changes only when the machine's clock is set.
func (m Moment) DateOf(s LifeStamp) time.Time { return m.Epoch.Add(LifeAt(s)) }

// Date returns the date of the moment.
func (m Moment) Date() time.Time { return m.Epoch.Add(m.Life) }

// FollowWall adjusts the dates of the lifetime clock if the machine's clock was set.
func (c *Clock) FollowWall() {
	m := c.Now()
	if off := m.Wall.Round(0).Sub(m.Date()); off.Abs() > clockSet {
		c.epoch.Add(int64(off.Round(time.Second)))
	}
}

// Uptime is the time since the machine booted. Unlike the wall clock, it cannot be set.
type Uptime struct {
	Boot string // ID of the boot; empty: unknown
	Up   time.Duration
}

// SavedLife is the lifetime clock as an earlier process saved it.
type SavedLife struct {
	Life  time.Duration
	Epoch int64 // Unix nanoseconds of the lifetime clock's zero
	Wall  time.Time
	Uptime
}

// Begin starts a new lifetime clock. Its zero is a whole second of the wall clock.
func (s *SavedLife) Begin() {
	began := s.Wall.Add(-lifeBegins).Truncate(time.Second)
	s.Life, s.Epoch = s.Wall.Round(0).Sub(began), began.UnixNano()
}

// outage returns the time in which no process ran. Within one boot it is the difference of the
// uptimes. Across boots it is the difference of the wall clocks. If the wall clock is behind the
// saved one, or more than longestDown ahead, it is considered wrong and the outage counts as zero.
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
	outage, up := s.outage(c.Uptime(), wallOf(now)), now.Sub(c.start)
	c.down = max(outage-up, 0)
	c.lived = min(s.Life+outage, LongestLife) - up
	c.epoch.Store(s.Epoch)
	c.FollowWall()
}

// CountOutage makes the outage receiving time: another process received meanwhile, and will tell what. Call
// it between ResumeLifetime and Resume.
func (c *Clock) CountOutage() { c.counted, c.counts, c.down = c.down, true, 0 }

// RestoredStamp converts a saved stamp of any format, and reports whether it is of format 1. A
// future stamp becomes the present.
func (m Moment) RestoredStamp(s LifeStamp) (_ LifeStamp, old bool) {
	if s >= FirstUnixStamp {
		life := time.Unix(int64(s), 0).Sub(m.Epoch)
		s, old = StampOf(max(life, 0)), true
	}
	return min(s, m.Stamp()), old
}
