package replica

import "time"

// offset estimates the difference between the local clock and an origin's: the least time between
// sending and arrival in the last minutes. It includes the shortest way of a message.
type offset struct {
	current, former time.Duration // the least in this period and in the one before
	began           time.Time     // of this period; zero: there is no sample
	later           int           // samples in a row that were a step later than the estimate
	laterFrom       time.Time     // when the first of them came
	correction      time.Duration
}

const (
	offsetPeriod = 2 * time.Minute
	// correctFrom is the difference from which dates are corrected. It exceeds the time that a
	// message takes.
	correctFrom = 2 * time.Second
	// stepSamples is the number of samples in a row that show that a clock was set, if they took stepWithin at
	// least: after this process stood still, many late ones come at once.
	stepSamples = 10
	stepWithin  = stepSamples * beatEvery / 2
)

// add adds a sample.
func (o *offset) add(now time.Time, sample time.Duration) {
	switch {
	case o.began.IsZero():
		o.began, o.current, o.former = now, sample, sample
	case now.Sub(o.began) >= offsetPeriod:
		o.began, o.former, o.current = now, o.current, sample
	default:
		o.current = min(o.current, sample)
	}
	if o.later++; o.later == 1 {
		o.laterFrom = now
	}
	if sample < o.least()+correctFrom {
		o.later = 0
	}
	if o.later >= stepSamples && now.Sub(o.laterFrom) >= stepWithin {
		o.began, o.current, o.former, o.later = now, sample, sample, 0
	}
}

func (o *offset) least() time.Duration { return min(o.current, o.former) }

// correct returns the duration to add to the origin's dates, and whether it changed. It follows the
// estimate in steps, so dates don't move with every heartbeat.
func (o *offset) correct() (_ time.Duration, changed bool) {
	least, before := o.least(), o.correction
	switch {
	case least.Abs() < correctFrom:
		o.correction = 0
	case (least - o.correction).Abs() >= correctFrom:
		o.correction = least
	}
	return o.correction, o.correction != before
}
