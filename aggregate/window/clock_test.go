package window

import (
	"testing"
	"time"
)

// A dated sample has a record in as many units as are kept: in one more it would take the place of
// the oldest that counts.
func TestASpanKeepsAsManyUnitsAsItHasRecords(t *testing.T) {
	for _, s := range NewSpans([]time.Duration{10 * time.Second, time.Minute}, time.Second) {
		const now = 1000
		units := map[uint32]bool{}
		for tick := range uint32(now + 1) {
			if s.Keeps(tick, now) {
				units[s.Unit(tick)] = true
			}
		}
		if len(units) != s.Kept() {
			t.Errorf("%s: %d units are kept, want %d", s.Window, len(units), s.Kept())
		}
	}
}
