package aggregate

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// An entry keeps its names of whatever length, in memory of its own.
func TestEntriesKeepTheirNames(t *testing.T) {
	var kept []*entry
	borrowed := []byte(strings.Repeat("x", 300))
	for name := 0; name <= 110; name += 5 {
		for _, uid := range []int{0, 1, 36, 120} {
			kept = append(kept, newEntry(metric.Borrow(borrowed[:name]), metric.Borrow(borrowed[:uid])))
		}
	}
	runtime.GC()
	for i := range borrowed {
		borrowed[i] = 'y'
	}
	for i, e := range kept {
		name, uid := i/4*5, []int{0, 1, 36, 120}[i%4]
		if e.name != strings.Repeat("x", name) || e.uid != strings.Repeat("x", uid) {
			t.Errorf("%q and %q: want %d and %d bytes", e.name, e.uid, name, uid)
		}
	}
}
