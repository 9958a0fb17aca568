package otlp

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Reader iterates over the data points of a request: each is a sample or a fault.
//
//	for reader.Reset(metrics, instances); reader.Next(); {
//		if reader.Fault.Reason != metric.Applied {
//			… // count and report reader.Fault
//			continue
//		}
//		apply(&reader.Sample)
//	}
type Reader struct {
	// Sample is the result of Next if there is no Fault. It is valid until the following Next.
	Sample metric.Sample
	// Fault is the result of Next if its Reason is not metric.Applied.
	Fault Fault

	options   Options
	explains  bool // faults have messages
	instances bool

	resources pmetric.ResourceMetricsSlice
	scopes    pmetric.ScopeMetricsSlice
	metrics   pmetric.MetricSlice
	// The next index in each of them.
	resourceAt, scopeAt, metricAt, pointAt int

	resource    resourceLabels    // of the current resource
	firstScopes map[string]string // of the current resource, by metric; nil: it has one scope (scope.go)
	metric      points            // of the current metric
	scope       string            // a label of the current metric, unless it is empty

	name      []byte
	labels    []metric.Label
	histogram metric.Histogram
	buckets   buckets.Builder
	native    buckets.Native
}

func NewReader(o Options) *Reader { return &Reader{options: o} }

// Reset starts a request and drops the one before. Instances says that the sender is no pod, so
// that the sender does not distinguish the series of several instances.
func (r *Reader) Reset(all pmetric.Metrics, instances bool) {
	r.resources, r.scopes, r.metrics = all.ResourceMetrics(), pmetric.NewScopeMetricsSlice(), pmetric.NewMetricSlice()
	r.resourceAt, r.scopeAt, r.metricAt, r.pointAt = 0, 0, 0, 0
	r.metric, r.scope, r.firstScopes, r.instances = points{}, "", nil, instances
	r.Sample, r.Fault = metric.Sample{}, Fault{}
	clear(r.labels[:cap(r.labels)])
	clear(r.resource.labels[:cap(r.resource.labels)])
}

// Next advances: afterwards either Fault or Sample is set. It returns false at the end.
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

// Explain gives the Fault its Message. It reads the data point again: an export can have a million
// faults, of which few are explained.
func (r *Reader) Explain() {
	r.explains = true
	r.read(r.pointAt - 1)
	r.explains = false
}

func (r *Reader) nextMetric() bool {
	for r.metricAt == r.metrics.Len() {
		for r.scopeAt == r.scopes.Len() {
			if r.resourceAt == r.resources.Len() {
				return false
			}
			next := r.resources.At(r.resourceAt)
			r.setResource(next.Resource())
			r.setScopes(next.ScopeMetrics())
			r.resourceAt++
		}
		r.metrics, r.metricAt = r.scopes.At(r.scopeAt).Metrics(), 0
		r.scopeAt++
	}
	r.metric, r.pointAt = pointsOf(r.metrics.At(r.metricAt)), 0
	r.scope = r.scopeOf(&r.metric)
	r.name = append(r.name[:0], r.metric.name...)
	r.metricAt++
	return true
}

// points are those of one metric: only the slice of its type is set.
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
		p.numbers, p.temporality, p.isMonotonic = m.Sum().DataPoints(), m.Sum().AggregationTemporality(),
			m.Sum().IsMonotonic()
		p.count = p.numbers.Len()
	case pmetric.MetricTypeHistogram:
		p.histograms, p.temporality = m.Histogram().DataPoints(), m.Histogram().AggregationTemporality()
		p.count = p.histograms.Len()
	case pmetric.MetricTypeExponentialHistogram:
		p.exponentials, p.temporality = m.ExponentialHistogram().DataPoints(),
			m.ExponentialHistogram().AggregationTemporality()
		p.count = p.exponentials.Len()
	case pmetric.MetricTypeSummary:
		p.summaries, p.temporality = m.Summary().DataPoints(), pmetric.AggregationTemporalityCumulative
		p.count = p.summaries.Len()
	}
	return p
}

// Fault says why a data point is rejected. With the Reason metric.Applied it is none.
type Fault struct {
	Reason  metric.Reason
	Message string // for the sender, after Explain; the client's text is quoted in it
}

// fail sets the fault of the current data point.
func (r *Reader) fail(reason metric.Reason, format string, args ...any) bool {
	if r.Fault.Reason = reason; r.explains {
		r.Fault.Message = fmt.Sprintf("%q: ", truncate(r.metric.name)) + fmt.Sprintf(format, args...)
	}
	return false
}

// truncate truncates a client's text for an answer.
func truncate(s string) string { return metric.Truncate(s, 256) }

// Options configure a Reader.
type Options struct {
	// MaxLabels limits the labels of a sample, MaxLabelBytes each key and each value.
	MaxLabels, MaxLabelBytes int
	// Attributes are resource attributes that become labels, besides those that name the object.
	Attributes []string
}
