package loadtest

import (
	"context"
	"time"
)

// pace limits a sender to a number of lines per second; 0: no limit.
type pace struct {
	perSecond int
	start     time.Time
}

func newPace(perSecond int) *pace { return &pace{perSecond: perSecond, start: time.Now()} }

// mostLate bounds the delay that a sender makes up for. A longer burst would exceed the pace, and
// the drops would be the sender's fault.
const mostLate = 20 * time.Millisecond

// heldPace is the share of a rate that a sender must reach; below it, the figures are those of
// another rate.
const heldPace = 0.98

// after sleeps until a number of lines is due. It returns early, with the reason, when ctx ends.
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

// burst returns the number of datagrams between two reads of the clock: those of a millisecond,
// limited to those of a system call.
func (p *pace) burst(perDatagram int) int {
	if p.perSecond == 0 {
		return maxBurst
	}
	return min(max(p.perSecond/1000/perDatagram, 1), maxBurst)
}

const maxBurst = 64

// rest sleeps for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
