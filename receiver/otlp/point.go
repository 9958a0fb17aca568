package otlp

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// read makes a sample of a data point of the current metric.
func (r *Reader) read(i int) {
	switch r.metric.kind {
	case pmetric.MetricTypeHistogram:
		r.readHistogram(r.metric.histograms.At(i))
	case pmetric.MetricTypeExponentialHistogram:
		r.readExponential(r.metric.exponentials.At(i))
	case pmetric.MetricTypeSummary:
		r.readSummary(r.metric.summaries.At(i))
	default:
		r.readNumber(r.metric.numbers.At(i))
	}
}

// point has the fields of all data points.
type point interface {
	Attributes() pcommon.Map
	StartTimestamp() pcommon.Timestamp
	Timestamp() pcommon.Timestamp
	Flags() pmetric.DataPointFlags
}

// begin sets all fields of a sample but its number. It returns false for a fault, and for the end
// of the series.
func begin[P point](r *Reader, p P) bool {
	s := &r.Sample
	s.Name = r.name
	if s.Kind, s.Op = r.metric.effect(); s.Op == metric.NoOp {
		return r.fail(metric.Unsupported, "the aggregation temporality is unspecified; must be cumulative or delta")
	}
	if !r.label(p.Attributes()) {
		return false
	}
	s.Fields, s.Container = r.labels, r.resource.container
	if s.Op == metric.Accumulate {
		s.Started = int64(min(p.StartTimestamp(), math.MaxInt64))
	}
	s.Dated = int64(min(p.Timestamp(), math.MaxInt64))
	if p.Flags().NoRecordedValue() {
		r.markStale()
		return false
	}
	return true
}

// markStale makes the sample end its series.
func (r *Reader) markStale() { r.Sample.Op, r.Sample.Started = metric.MarkStale, 0 }

// effect is the kind and operation of the metric's points. NoOp: unknown.
func (m *points) effect() (metric.Kind, metric.Op) {
	isDelta := m.temporality == pmetric.AggregationTemporalityDelta
	switch {
	case m.kind == pmetric.MetricTypeGauge:
		return metric.Gauge, metric.Assign
	case m.temporality == pmetric.AggregationTemporalityUnspecified ||
		m.temporality > pmetric.AggregationTemporalityCumulative:
		return metric.NoKind, metric.NoOp
	case m.kind != pmetric.MetricTypeSum && isDelta:
		return metric.Timer, metric.Merge
	case m.kind != pmetric.MetricTypeSum:
		return metric.Timer, metric.Accumulate
	case m.isMonotonic && isDelta:
		return metric.Counter, metric.Add
	case m.isMonotonic:
		return metric.Counter, metric.Accumulate
	case isDelta:
		return metric.Gauge, metric.Shift
	}
	return metric.Gauge, metric.Assign
}

// readNumber reads a point of a gauge or a sum. Integers are exact. NaN and infinities end the
// series: they can't be served.
func (r *Reader) readNumber(p pmetric.NumberDataPoint) {
	if !begin(r, p) {
		return
	}
	s := &r.Sample
	switch p.ValueType() {
	case pmetric.NumberDataPointValueTypeInt:
		s.Whole = p.IntValue()
	case pmetric.NumberDataPointValueTypeDouble:
		v := p.DoubleValue()
		switch finite := !math.IsNaN(v) && !math.IsInf(v, 0); {
		case finite:
			s.SetFloat(v)
		case s.Op == metric.Add || s.Op == metric.Shift:
			r.fail(metric.BadValue, "the delta is NaN or infinite; must be finite")
			return
		default:
			r.markStale()
			return
		}
	default:
		r.fail(metric.Malformed, "the data point has neither asInt nor asDouble, nor the flag NO_RECORDED_VALUE")
		return
	}
	if s.Kind == metric.Counter && (s.Whole < 0 || s.Fraction < 0) {
		r.fail(metric.BadValue, "the monotonic sum is negative; must be at least 0")
	}
}
