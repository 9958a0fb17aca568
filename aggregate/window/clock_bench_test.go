package window

import (
	"testing"
	"time"
)

// BenchmarkNow reads an ordinary clock: a told one must not make it slower.
func BenchmarkNow(b *testing.B) {
	c := NewClock([]time.Duration{10 * time.Second, time.Minute})
	for b.Loop() {
		c.Now()
	}
}
