package main

import (
	"math"
	"slices"
)

// axis is a logarithmic axis from a value at one place to another value at another place.
type axis struct{ low, high, from, to float64 }

// newAxis returns an axis that covers the values, and at least one decade.
func newAxis(values []float64, from, to float64) axis {
	positive := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v <= 0 })
	if len(positive) == 0 {
		positive = []float64{1}
	}
	low, high := roundDown(slices.Min(positive)), roundUp(slices.Max(positive))
	if high < 10*low {
		high = roundUp(10 * low)
	}
	return axis{low, high, from, to}
}

// at returns the place of a value.
func (a axis) at(v float64) float64 {
	v = min(max(v, a.low), a.high)
	return a.from + (a.to-a.from)*math.Log(v/a.low)/math.Log(a.high/a.low)
}

// ticks returns the powers of ten within the axis; if there are less than two, also 2 and 5 times
// those.
func (a axis) ticks() (ticks []float64) {
	for _, factors := range [][]float64{{1}, {1, 2, 5}} {
		if ticks = a.multiples(factors); len(ticks) >= 2 {
			return ticks
		}
	}
	return ticks
}

func (a axis) multiples(factors []float64) (ticks []float64) {
	for power := math.Floor(math.Log10(a.low)); power <= math.Ceil(math.Log10(a.high)); power++ {
		for _, factor := range factors {
			if v := factor * math.Pow(10, power); v >= a.low*0.999 && v <= a.high*1.001 {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// roundDown returns the next lower 1, 2 or 5 times a power of ten.
func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{5, 2} {
		if v >= factor*power {
			return factor * power
		}
	}
	return power
}

// roundUp returns the next higher 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if v <= factor*power*1.0001 {
			return factor * power
		}
	}
	return 10 * power
}
