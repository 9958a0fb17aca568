package metric

import "math"

// MaxIncrement is the largest increment that an autoscaler can read: it uses thousandths in an
// int64.
const MaxIncrement = math.MaxInt64 / 1000

// Increment splits an increment of a counter into whole units, which are exact, and billionths, with
// 0 <= nanos < Nanos. The sample rate is in it. It returns false for increments beyond MaxIncrement.
func (s *Sample) Increment() (whole int64, nanos uint32, ok bool) {
	if s.Rate == 0 || s.Rate == 1 {
		if s.Whole < -MaxIncrement || s.Whole > MaxIncrement || math.Abs(s.Fraction) >= 1 {
			return 0, 0, false
		}
		whole, nanos = SplitNanos(s.Fraction)
		return s.Whole + whole, nanos, true
	}
	v := s.Float() / s.Rate
	if !(math.Abs(v) <= MaxIncrement) {
		return 0, 0, false
	}
	whole, nanos = SplitNanos(v)
	return whole, nanos, true
}

// SplitNanos rounds a number down to a whole, and returns the billionths above it. It rounds to billionths first, so
// that 29.999999999999996 is 30.
func SplitNanos(v float64) (whole int64, nanos uint32) {
	floor := math.Floor(v)
	units := math.RoundToEven((v - floor) * Nanos)
	if units == Nanos {
		return int64(floor) + 1, 0
	}
	return int64(floor), uint32(units)
}
