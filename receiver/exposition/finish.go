package exposition

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// finish checks the rules for the body as a whole, and sets the families' metrics. For a fault,
// c.position and c.about are set.
func (c *collector) finish() ([]Family, detail) {
	for i := range c.families {
		f := &c.families[i]
		if c.states[i].metrics.length == 0 {
			continue
		}
		if _, clash := SampleOwner(f.Name, c.typeOf); clash {
			c.about, c.position = f.Name, c.states[i].position
			return nil, namesClash
		}
		if d := c.layOut(f, &c.states[i]); d != noDetail {
			c.about = f.Name
			return nil, d
		}
	}
	kept := c.families[:0]
	for i := range c.families {
		if c.states[i].metrics.length > 0 {
			kept = append(kept, c.families[i])
		}
	}
	clear(c.families[len(kept):])
	return kept, noDetail
}

// typeOf returns the type of a family that has metrics.
func (c *collector) typeOf(name string) (Type, bool) {
	i := c.family(name)
	if i < 0 || c.states[i].metrics.length == 0 {
		return 0, false
	}
	return c.families[i].Type, true
}

// layOut sets a family's metrics. They keep their memory when a slab grows: it is not written any
// more.
func (c *collector) layOut(f *Family, found *familyState) detail {
	f.Metrics = view(c.metrics, found.metrics)
	for i, m := range view(c.compounds, found.compounds) {
		if f.Type == SummaryType {
			f.Metrics[i].Summary = c.summary(m)
			continue
		}
		var d detail
		if f.Metrics[i].Histogram, d = c.histogram(m); d != noDetail {
			c.position = m.position
			return d
		}
	}
	return noDetail
}

func (c *collector) summary(m partial) *Summary {
	at := len(c.quantiles)
	for _, p := range view(c.points, m.points) {
		c.quantiles = append(c.quantiles, Quantile{p.at, p.value})
	}
	c.summaries = append(c.summaries, Summary{m.count, m.sum, c.quantiles[at:len(c.quantiles):len(c.quantiles)]})
	return &c.summaries[len(c.summaries)-1]
}

// histogram completes a histogram: the count and the bucket +Inf are equivalent, and one of them
// suffices.
func (c *collector) histogram(m partial) (*Histogram, detail) {
	at := len(c.buckets)
	for _, p := range view(c.points, m.points) {
		c.buckets = append(c.buckets, Bucket{UpperBound: p.at, Count: p.value})
	}
	last := Bucket{UpperBound: math.Inf(-1)}
	if len(c.buckets) > at {
		last = c.buckets[len(c.buckets)-1]
	}
	switch {
	case math.IsInf(last.UpperBound, 1) && !m.hasCount:
		m.count = last.Count
	case math.IsInf(last.UpperBound, 1):
	case !m.hasCount:
		return nil, noCount
	case m.count < last.Count:
		return nil, countBelowBucket
	default:
		c.buckets = append(c.buckets, Bucket{UpperBound: math.Inf(1), Count: m.count})
	}
	buckets := c.buckets[at:len(c.buckets):len(c.buckets)]
	c.histograms = append(c.histograms, Histogram{m.count, m.sum, buckets, m.native})
	return &c.histograms[len(c.histograms)-1], noDetail
}

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
