package kind

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// Sum is an exact sum of counters' values.
type Sum struct {
	Whole    int64
	Fraction uint64 // billionths, less than FractionUnits
}

func (s *Sum) Add(whole int64, fraction uint64) {
	s.Whole += whole + int64(fraction/FractionUnits)
	s.Fraction += fraction % FractionUnits
	s.Whole += int64(s.Fraction / FractionUnits)
	s.Fraction %= FractionUnits
}

func (s Sum) plus(o Sum) Sum {
	s.Add(o.Whole, o.Fraction)
	return s
}

func (s Sum) minus(o Sum) Sum {
	if s.Fraction < o.Fraction {
		s.Whole--
		s.Fraction += FractionUnits
	}
	return Sum{s.Whole - o.Whole, s.Fraction - o.Fraction}
}

func (s Sum) below(o Sum) bool {
	return s.Whole < o.Whole || s.Whole == o.Whole && s.Fraction < o.Fraction
}

// maxPushed bounds a client's running total, so that the difference of any two is far below the
// rest of an int64 (see Cell.Add).
const maxPushed = 1 << 60

// quantiseTotal rounds a running total to billionths. It returns false for NaN and totals beyond
// maxPushed.
func quantiseTotal(s *metric.Sample) (total Sum, ok bool) {
	if s.Whole < -maxPushed || s.Whole > maxPushed || !(math.Abs(s.Fraction) < 1) {
		return Sum{}, false
	}
	whole, fraction := split(s.Fraction)
	return Sum{s.Whole + whole, uint64(fraction)}, true
}
