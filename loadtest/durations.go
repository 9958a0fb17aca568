package loadtest

import (
	"slices"
	"time"
)

// durations are times of the same thing, done again and again.
type durations []time.Duration

// figures are the middle and the tail of the durations, in milliseconds, under names that begin alike. The aim is that
// of p99.
func (d durations) figures(name string, aim Aim) []Figure {
	sorted := slices.Sorted(slices.Values(d))
	figures := []Figure{
		{Name: name + "_p50", Unit: "ms", Value: milliseconds(percentile(sorted, 50))},
		{Name: name + "_p99", Unit: "ms", Value: milliseconds(percentile(sorted, 99)), Aim: aim},
		{Name: name + "_max", Unit: "ms", Value: milliseconds(percentile(sorted, 100))},
	}
	return figures
}

// percentile is the least of the sorted durations that so many percent of them do not exceed (nearest rank); 0 of none.
func percentile(sorted durations, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
