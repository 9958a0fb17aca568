package aggregate

import (
	"time"
)

// Lifetimes are measured by a clock of the table's own, the lifetime clock (docs/adr/0037). It advances with the monotonic
// clock of the process, so setting the machine's clock changes no lifetime. The store keeps it: the next process
// adds the time in which no process ran. Its zero has no meaning; clock.epoch maps it to dates.
//
// A lifeStamp is a moment of it, as cells and blobs hold it.
type lifeStamp = uint32

const (
	// stampUnit is the resolution of stamps. They are rounded down; moment.since makes up for it, so no lifetime ends early.
	stampUnit = time.Second / 4
	// lifeBegins is what the lifetime clock of a new data folder shows: samples that an older format dates are before it.
	lifeBegins = 365 * 24 * time.Hour
	// firstUnixStamp parts the stamps of this format from those of format 1, which are Unix seconds: of 2017 and later.
	firstUnixStamp lifeStamp = 1_500_000_000
	// longestLife is the most that the clock may show: stamps stay below firstUnixStamp for eleven years.
	longestLife = time.Duration(firstUnixStamp-1) * stampUnit
	// longestDown is the longest outage that the wall clock alone is believed: a longer one is a clock that is wrong.
	longestDown = 7 * 24 * time.Hour
	// clockSet is how far the wall clock leaves the monotonic one where somebody has set it. Leap seconds are less.
	clockSet = 2 * time.Second
)

func stampOf(life time.Duration) lifeStamp {
	return lifeStamp(min(life/stampUnit, time.Duration(firstUnixStamp)-1))
}

func lifeAt(s lifeStamp) time.Duration { return time.Duration(s) * stampUnit }

func (m moment) stamp() lifeStamp { return stampOf(m.life) }

// since is how long ago a stamp was, at least.
func (m moment) since(s lifeStamp) time.Duration { return m.life - lifeAt(s) - stampUnit }

// dated is the date of a stamp, and date that of the moment itself. The same stamp has the same date each time, until somebody
// sets the machine's clock.
func (m moment) dated(s lifeStamp) time.Time { return m.epoch.Add(lifeAt(s)) }

func (m moment) date() time.Time { return m.epoch.Add(m.life) }

// follow moves the dates of the lifetime clock along when somebody has set the machine's clock.
func (c *clock) follow() {
	m := c.now()
	if off := m.wall.Round(0).Sub(m.date()); off.Abs() > clockSet {
		c.epoch.Add(int64(off.Round(time.Second)))
	}
}

// uptime is how long a boot of the machine has lasted, which nobody can set. boot is empty where that is not known.
type uptime struct {
	boot string
	up   time.Duration
}

// savedLife is the lifetime clock as an earlier process saved it.
type savedLife struct {
	life  time.Duration
	epoch int64 // Unix nanoseconds of the lifetime clock's zero
	wall  time.Time
	uptime
}

// begin sets a new lifetime clock, whose stamps fall on whole seconds.
func (s *savedLife) begin() {
	began := s.wall.Add(-lifeBegins).Truncate(time.Second)
	s.life, s.epoch = s.wall.Round(0).Sub(began), began.UnixNano()
}

// outage is how long no process has run since. The uptime tells it within one boot of the machine. Across boots there is
// the wall clock alone: where it is behind what was saved, or far ahead, it is wrong, and the outage counts as none.
func (s *savedLife) outage(now uptime, wall time.Time) time.Duration {
	if s.boot != "" && s.boot == now.boot && s.up <= now.up {
		return now.up - s.up
	}
	if down := wall.Round(0).Sub(s.wall); 0 < down && down <= longestDown {
		return down
	}
	return 0
}

// live goes on from a lifetime clock that an earlier process had reached.
func (c *clock) live(s savedLife) {
	now := time.Now()
	c.lived = min(s.life+s.outage(c.uptime(), wallOf(now)), longestLife) - now.Sub(c.start)
	c.epoch.Store(s.epoch)
	c.follow()
}

// restoredStamp is a stamp that was saved, of whichever format, and whether it is of an old one. None is in the future.
func (m moment) restoredStamp(s lifeStamp) (_ lifeStamp, old bool) {
	if s >= firstUnixStamp {
		life := time.Unix(int64(s), 0).Sub(m.epoch)
		s, old = stampOf(max(life, 0)), true
	}
	return min(s, m.stamp()), old
}
