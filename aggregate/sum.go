package aggregate

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// sum is an exact sum of what counters hold: whole units and billionths, of which there are fewer than a whole one.
type sum struct {
	whole    int64
	fraction uint64
}

func (s *sum) add(whole int64, fraction uint64) {
	s.whole += whole + int64(fraction/fractionUnits)
	s.fraction += fraction % fractionUnits
	s.whole += int64(s.fraction / fractionUnits)
	s.fraction %= fractionUnits
}

func (s sum) plus(o sum) sum {
	s.add(o.whole, o.fraction)
	return s
}

func (s sum) minus(o sum) sum {
	if s.fraction < o.fraction {
		s.whole--
		s.fraction += fractionUnits
	}
	return sum{s.whole - o.whole, s.fraction - o.fraction}
}

func (s sum) below(o sum) bool {
	return s.whole < o.whole || s.whole == o.whole && s.fraction < o.fraction
}

// maxPushed bounds a client's running total: the difference of any two is far from the rest of an int64 (cell.add).
const maxPushed = 1 << 60

// quantiseTotal puts a running total on the grid. False: it is not a number, or beyond maxPushed.
func quantiseTotal(s *metric.Sample) (total sum, ok bool) {
	if s.Whole < -maxPushed || s.Whole > maxPushed || !(math.Abs(s.Fraction) < 1) {
		return sum{}, false
	}
	whole, fraction := split(s.Fraction)
	return sum{s.Whole + whole, uint64(fraction)}, true
}
