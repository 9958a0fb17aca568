package fair

import (
	"maps"
	"math"
	"time"
)

const (
	// leastCost is a cost that counts at once.
	leastCost = 50 * time.Microsecond
	// risesBy bounds the cost that counts to a multiple of what is remembered of the share.
	risesBy = 16
	// Half of a remembered cost is forgotten after halfLife. A share that waits for that leaves more time to others than the
	// work takes that doesn't count then, if it takes less than two minutes.
	halfLife = 5 * time.Minute
)

// Costs say how much of the time that a share's work took counts as its cost. Some work takes long because other processes
// had the processor, so the cost rises by the sixteenfold from one piece of work to the next at most. It is remembered by
// share: neither new work of the same share, nor cheap work between, begins anew. One goroutine uses them. The zero value
// is ready.
type Costs[K comparable] struct{ of map[K]cost }

// cost is the largest one that counted lately, as of a moment.
type cost struct {
	cost time.Duration
	at   time.Time
}

func (c cost) left(now time.Time) time.Duration {
	return time.Duration(float64(c.cost) * math.Exp2(-float64(now.Sub(c.at))/float64(halfLife)))
}

// Count returns the cost of a share's work, which took some time until now.
func (c *Costs[K]) Count(share K, took time.Duration, now time.Time) time.Duration {
	before, known := c.of[share]
	if !known {
		c.forget(now)
	}
	left := before.left(now)
	counts := min(took, risesBy*left+leastCost)
	c.of[share] = cost{max(counts, left), now}
	return counts
}

// forget makes room for a share that comes: those that are forgotten need none.
func (c *Costs[K]) forget(now time.Time) {
	if c.of == nil {
		c.of = map[K]cost{}
	}
	maps.DeleteFunc(c.of, func(_ K, was cost) bool { return was.left(now) == 0 })
}
