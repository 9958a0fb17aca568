package loadtest

import (
	"context"
	"time"
)

// pace holds a sender to a number of lines a second; 0 does not hold it.
type pace struct {
	perSecond int
	start     time.Time
}

func newPace(perSecond int) *pace { return &pace{perSecond: perSecond, start: time.Now()} }

// mostLate is how much of the time for which a sender was held up it makes up for. All of it at once would be a burst far beyond the
// pace, and what the receiver dropped of it the sender's fault.
const mostLate = 20 * time.Millisecond

// after sleeps until so many lines are due. It returns early, with the reason, when ctx ends.
func (p *pace) after(ctx context.Context, lines int64) error {
	if p.perSecond == 0 {
		return ctx.Err()
	}
	due := p.start.Add(time.Duration(float64(lines) / float64(p.perSecond) * float64(time.Second)))
	wait := time.Until(due)
	if wait > 0 {
		return rest(ctx, wait)
	}
	if late := -wait - mostLate; late > 0 {
		p.start = p.start.Add(late)
	}
	return ctx.Err()
}

// burst is how many datagrams go out between two looks at the clock: what is due in a millisecond, and no
// more than one system call takes.
func (p *pace) burst(perDatagram int) int {
	if p.perSecond == 0 {
		return maxBurst
	}
	return min(max(p.perSecond/1000/perDatagram, 1), maxBurst)
}

const maxBurst = 64

// rest sleeps, but not on when ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
