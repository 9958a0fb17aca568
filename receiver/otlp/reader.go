package otlp

import (
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Reader walks through a request, data point by data point: each is a sample or a fault.
//
//	for reader.Reset(metrics, instances); reader.Next(); {
//		if reader.Fault.Reason != metric.Applied {
//			… // count and tell reader.Fault
//			continue
//		}
//		apply(&reader.Sample)
//	}
type Reader struct {
	// Sample is what Next found, where there is no Fault. It is valid until the following Next.
	Sample metric.Sample
	// Fault is what Next found instead.
	Fault Fault
	// Quiet leaves messages of faults out, where nobody will read them: an export can have a million.
	Quiet bool

	options   Options
	instances bool

	resources pmetric.ResourceMetricsSlice
	scopes    pmetric.ScopeMetricsSlice
	metrics   pmetric.MetricSlice
	// How far each of them was read.
	resourceAt, scopeAt, metricAt, pointAt int

	resource shared // under way
	metric   points // likewise

	name      []byte
	labels    []metric.Label
	histogram metric.Histogram
	buckets   buckets.Builder
	native    buckets.Native
}

// NewReader makes a reader of nothing.
func NewReader(o Options) *Reader { return &Reader{options: o} }

// Reset starts on a request, and forgets the one before. instances: who sent it is no pod, so it does not tell the series of several of its kind apart.
func (r *Reader) Reset(all pmetric.Metrics, instances bool) {
	r.resources, r.scopes, r.metrics = all.ResourceMetrics(), pmetric.NewScopeMetricsSlice(), pmetric.NewMetricSlice()
	r.resourceAt, r.scopeAt, r.metricAt, r.pointAt = 0, 0, 0, 0
	r.metric, r.instances = points{}, instances
	r.Sample, r.Fault, r.Quiet = metric.Sample{}, Fault{}, false
	clear(r.labels[:cap(r.labels)])
	clear(r.resource.labels[:cap(r.resource.labels)])
}

// Next reads on: afterwards either Fault says what was wrong, or Sample holds. It returns false at the end.
func (r *Reader) Next() bool {
	for r.pointAt == r.metric.count {
		if !r.nextMetric() {
			return false
		}
	}
	r.Fault, r.Sample = Fault{}, metric.Sample{}
	r.read(r.pointAt)
	r.pointAt++
	return true
}

func (r *Reader) nextMetric() bool {
	for r.metricAt == r.metrics.Len() {
		for r.scopeAt == r.scopes.Len() {
			if r.resourceAt == r.resources.Len() {
				return false
			}
			next := r.resources.At(r.resourceAt)
			r.enter(next.Resource())
			r.scopes, r.scopeAt = next.ScopeMetrics(), 0
			r.resourceAt++
		}
		r.metrics, r.metricAt = r.scopes.At(r.scopeAt).Metrics(), 0
		r.scopeAt++
	}
	r.metric, r.pointAt = pointsOf(r.metrics.At(r.metricAt)), 0
	r.name = append(r.name[:0], r.metric.name...)
	r.metricAt++
	return true
}

// points are those of one metric: of the type's slice, the others are not there.
type points struct {
	name         string
	kind         pmetric.MetricType
	temporality  pmetric.AggregationTemporality
	isMonotonic  bool
	count        int
	numbers      pmetric.NumberDataPointSlice
	histograms   pmetric.HistogramDataPointSlice
	exponentials pmetric.ExponentialHistogramDataPointSlice
	summaries    pmetric.SummaryDataPointSlice
}

func pointsOf(m pmetric.Metric) points {
	p := points{name: m.Name(), kind: m.Type()}
	switch p.kind {
	case pmetric.MetricTypeGauge:
		p.numbers = m.Gauge().DataPoints()
		p.count = p.numbers.Len()
	case pmetric.MetricTypeSum:
		p.numbers, p.temporality, p.isMonotonic = m.Sum().DataPoints(), m.Sum().AggregationTemporality(), m.Sum().IsMonotonic()
		p.count = p.numbers.Len()
	case pmetric.MetricTypeHistogram:
		p.histograms, p.temporality = m.Histogram().DataPoints(), m.Histogram().AggregationTemporality()
		p.count = p.histograms.Len()
	case pmetric.MetricTypeExponentialHistogram:
		p.exponentials, p.temporality = m.ExponentialHistogram().DataPoints(), m.ExponentialHistogram().AggregationTemporality()
		p.count = p.exponentials.Len()
	case pmetric.MetricTypeSummary:
		p.summaries, p.temporality = m.Summary().DataPoints(), pmetric.AggregationTemporalityCumulative
		p.count = p.summaries.Len()
	}
	return p
}
