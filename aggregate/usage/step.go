package usage

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// step is a point that is not over yet, of a source that measures more often than windows need. Steps end with the
// first measurement in each multiple of their length of Unix time, so one begins where the one before ended.
type step struct {
	last   metric.UsageReading // the newest measurement
	memory float64             // bytes, times the seconds that they held
}

// follow takes a measurement within a step, and returns what was used since the one before. whole: it is the first one
// of a container or of another step, so the histories have it.
func (c *tracked) follow(r metric.UsageReading, length time.Duration) (second Second, whole bool) {
	last := c.step.last
	c.step.last = r
	passed := r.CPUAt.Sub(last.CPUAt)
	switch {
	case last.CPUAt.IsZero() || passed > time.Duration(longest)*time.Millisecond:
		c.begin(r)
		return Unknown, true
	case r.CPU < last.CPU || r.Started.After(last.CPUAt): // it has started again
		c.endStep(last)
		c.begin(r)
		return Unknown, true
	case passed <= 0:
		return Unknown, false
	}
	c.step.memory += float64(r.Memory) * r.MemoryAt.Sub(last.MemoryAt).Seconds()
	if whole = !r.CPUAt.Truncate(length).Equal(last.CPUAt.Truncate(length)); whole {
		c.endStep(r)
	}
	return Second{float32((r.CPU - last.CPU).Seconds() / passed.Seconds()), float32(r.Memory)}, whole
}

// begin begins the first step of a container.
func (c *tracked) begin(r metric.UsageReading) {
	c.base.MemoryAt, c.step.memory = r.MemoryAt, 0
	c.point(r)
}

// endStep ends a step with a measurement. Its memory is the mean of all.
func (c *tracked) endStep(r metric.UsageReading) {
	if held := r.MemoryAt.Sub(c.base.MemoryAt).Seconds(); held > 0 {
		r.Memory = uint64(c.step.memory/held + 0.5)
	}
	c.step.memory = 0
	c.point(r)
}
