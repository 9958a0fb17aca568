package metric

import (
	"math"
	"testing"
)

func TestHistogramCheck(t *testing.T) {
	for name, c := range map[string]struct {
		h    Histogram
		want Reason
	}{
		"buckets":               {Histogram{Bounds: []float64{-1, 0, 1}, Counts: []float64{0, 1.5, 0, 2}, Count: 3.5}, Applied},
		"no bounds":             {Histogram{Counts: []float64{2}, Count: 2, Sum: math.NaN()}, Applied},
		"a summary":             {Histogram{Count: 2, Quantiles: []Quantile{{0.5, math.NaN()}}}, Applied},
		"one count short":       {Histogram{Bounds: []float64{1}, Counts: []float64{2}}, Malformed},
		"a summary and buckets": {Histogram{Bounds: []float64{1}, Counts: []float64{2, 3}, Quantiles: []Quantile{{0.5, 1}}}, Malformed},
		"bounds out of order":   {Histogram{Bounds: []float64{1, 0}, Counts: []float64{2, 3, 4}}, BadValue},
		"counts of no bucket":   {Histogram{Counts: []float64{1, 2}}, Malformed},
		"the same bound twice":  {Histogram{Bounds: []float64{1, 1}, Counts: []float64{2, 3, 4}}, BadValue},
		"an infinite bound":     {Histogram{Bounds: []float64{1, math.Inf(1)}, Counts: []float64{2, 3, 4}}, BadValue},
		"NaN for a bound":       {Histogram{Bounds: []float64{math.NaN(), 1}, Counts: []float64{2, 3, 4}}, BadValue},
		"NaN for a count":       {Histogram{Count: math.NaN()}, BadValue},
		"a bucket below zero":   {Histogram{Bounds: []float64{1, 2}, Counts: []float64{1, -2, 3}}, BadValue},
		"too many buckets":      {Histogram{Bounds: make([]float64, MaxBounds+1), Counts: make([]float64, MaxBounds+2)}, TooLong},
		"a count below zero":    {Histogram{Count: -1}, BadValue},
		"an infinite count":     {Histogram{Counts: []float64{math.Inf(1)}}, BadValue},
		"too many quantiles":    {Histogram{Quantiles: make([]Quantile, MaxQuantiles+1)}, TooLong},
	} {
		if got := c.h.Check(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestPushedOps(t *testing.T) {
	for op := NoOp; op <= MarkStale; op++ {
		if want := op == Accumulate || op == Merge || op == MarkStale; op.PreAggregated() != want {
			t.Errorf("op %d: %v", op, op.PreAggregated())
		}
	}
}
