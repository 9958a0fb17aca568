package aggregate

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// sightings holds the receiving time at which each member of a set was last seen.
type sightings map[string]time.Duration

// apply applies a sample of the set to a table.
func (seen sightings) apply(f *fixture, s *metric.Sample) {
	f.apply(s)
	seen[string(s.Member)] = f.Clock.Now().At
}

// since counts the members last seen at a receiving time or later.
func (seen sightings) since(at time.Duration) (n float64) {
	for _, last := range seen {
		if last >= at {
			n++
		}
	}
	return n
}

// estimateError is four standard errors of an estimate by 4,096 registers: 4·1.04/√4096.
const estimateError = 4 * 1.04 / 64

// compareLarge checks a set that is large enough for an estimate in some tables, and exact in
// others, against the members that were seen.
//
// The exact form counts from the window's start. The registers are of a tenth of the window each,
// and count from the first tenth that begins in the window. A set may have members in both forms.
// So an answer is between the two counts, apart from the error of the estimate.
func (r *fleet) compareLarge(all *fixture, seen sightings, when string) {
	r.t.Helper()
	for _, w := range all.Windows() {
		asked := "many:unique:" + metric.FormatWindow(w)
		start, part := all.Clock.Now().At-w, w/window.TicksPerWindow
		most, least := seen.since(start), seen.since((start+part-1)/part*part)
		low, high := math.Floor(least*(1-estimateError)), math.Ceil(most*(1+estimateError))
		check := func(from asker, name string) {
			got, err := answer(from, asked)
			if err != nil {
				r.t.Fatalf("%s: %s of %s: %v", when, asked, name, err)
			}
			if v := got.Float64(); v < low || v > high {
				r.t.Errorf("%s: %s of %s, of %d origins, is %v, want %v to %v",
					when, asked, name, len(r.origins), v, low, high)
			}
		}
		check(all, "one table")
		for i := range r.origins {
			check(r.merged(i), fmt.Sprintf("replica %d", i))
		}
	}
}
