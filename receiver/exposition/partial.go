package exposition

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// partial is a summary or histogram whose samples have not all been read.
type partial struct {
	count, sum       float64
	hasCount, hasSum bool
	points           slabList // in collector.points, sorted
	native           *Native
	position         int // of the last sample
}

// point is a quantile and its value, or a bucket's bound and count.
type point struct{ at, value float64 }

// compound returns the summary or histogram of a label set. isNew says that it is new and retains
// the labels. The pointer is valid until the next one is added.
func (c *collector) compound(family int, labels []metric.Label) (m *partial, isNew bool, d detail) {
	f := &c.states[family]
	i := c.find(family, labels)
	if i < 0 {
		if d := c.add(family, Metric{Labels: labels}); d != noDetail {
			return nil, false, d
		}
		i, isNew = int(f.compounds.length), true
		c.compounds = insert(c.compounds, &f.compounds, i, partial{})
	}
	f.last = int32(i)
	return &c.compounds[int(f.compounds.at)+i], isNew, noDetail
}

// setCount sets the number of observations.
func (m *partial) setCount(count float64) detail {
	switch {
	case m.hasCount:
		return sameSeries
	case !metric.IsCount(count):
		return badCount
	}
	m.count, m.hasCount = math.Abs(count), true // -0 is 0
	return noDetail
}

func (m *partial) setSum(sum float64) detail {
	if m.hasSum {
		return sameSeries
	}
	m.sum, m.hasSum = sum, true
	return noDetail
}

// addQuantile and addBucket keep the points sorted, in whatever order they arrive.
func (c *collector) addQuantile(m *partial, quantile, value float64) detail {
	if quantile != quantile {
		return badQuantile
	}
	_, d := c.addPoint(m, point{quantile, value})
	return d
}

func (c *collector) addBucket(m *partial, bound, count float64) detail {
	switch {
	case bound != bound:
		return badBound
	case !metric.IsCount(count):
		return badCount
	}
	i, d := c.addPoint(m, point{bound, math.Abs(count)})
	if d != noDetail {
		return d
	}
	points := view(c.points, m.points)
	if i > 0 && points[i-1].value > count || i+1 < len(points) && points[i+1].value < count {
		return fallingBuckets
	}
	return noDetail
}

func (c *collector) addPoint(m *partial, p point) (int, detail) {
	points := view(c.points, m.points)
	i := len(points)
	for i > 0 && points[i-1].at >= p.at {
		i--
	}
	switch {
	case i < len(points) && points[i].at == p.at:
		return i, samePoint
	case len(points) == c.options.MaxBuckets:
		return i, manyBuckets
	}
	c.points = insert(c.points, &m.points, i, p)
	return i, noDetail
}
