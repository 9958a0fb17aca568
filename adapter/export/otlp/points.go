package otlp

import (
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// objectKeys are the attributes of objects.
// Source: https://opentelemetry.io/docs/specs/semconv/resource/k8s/
var objectKeys = map[string]string{
	"pods": "k8s.pod.name", "nodes": "k8s.node.name", "namespaces": "k8s.namespace.name", "services": "k8s.service.name",
	"deployments.apps": "k8s.deployment.name", "statefulsets.apps": "k8s.statefulset.name",
	"daemonsets.apps":  "k8s.daemonset.name",
	"replicasets.apps": "k8s.replicaset.name", "jobs.batch": "k8s.job.name", "cronjobs.batch": "k8s.cronjob.name",
}

// batch is a request that is being filled.
type batch struct {
	request pmetricotlp.ExportRequest
	metrics pmetric.MetricSlice
	points  int
	totals  bool // a point is one

	// The fields below are the metric of the last point.
	family *metric.Family
	kind   metric.Kind
	metric pmetric.Metric
	// falling are the names of counters of which a series has fallen.
	falling map[string]bool
}

func newBatch(falling map[string]bool) *batch {
	all := pmetric.NewMetrics()
	resource := all.ResourceMetrics().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "sluice")
	scope := resource.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("github.com/sluice-metrics/sluice")
	return &batch{request: pmetricotlp.NewExportRequestFromMetrics(all), metrics: scope.Metrics(), falling: falling}
}

// add adds a series. The attributes of its object stand beside its labels, because the series of
// one metric have many objects.
func (b *batch) add(f *metric.Family, k metric.Kind, s *metric.LiveSeries, now time.Time) {
	if b.family != f || b.kind != k {
		b.begin(f, k)
	}
	b.points++
	at := pcommon.NewTimestampFromTime(now)
	started := at
	if s.Start.Before(now) {
		started = pcommon.NewTimestampFromTime(s.Start)
	}
	if k == metric.Timer {
		p := b.metric.Summary().DataPoints().AppendEmpty()
		p.SetStartTimestamp(started)
		p.SetTimestamp(at)
		p.SetCount(uint64(s.Summary.Count + 0.5))
		p.SetSum(s.Summary.Sum)
		for _, q := range s.Summary.Quantiles {
			if q.Value == q.Value { // not NaN: something was observed
				v := p.QuantileValues().AppendEmpty()
				v.SetQuantile(q.Q)
				v.SetValue(q.Value)
			}
		}
		putAttributes(p.Attributes(), s)
		return
	}
	var p pmetric.NumberDataPoint
	if k == metric.Counter {
		p = b.metric.Sum().DataPoints().AppendEmpty()
		p.SetStartTimestamp(started)
		if s.Fell && !b.falling[f.Name] {
			b.fall(f.Name)
		}
	} else {
		p = b.metric.Gauge().DataPoints().AppendEmpty()
	}
	p.SetTimestamp(at)
	if whole, ok := s.Value.Int64(); ok {
		p.SetIntValue(whole)
	} else {
		p.SetDoubleValue(s.Value.Float64())
	}
	putAttributes(p.Attributes(), s)
}

func (b *batch) begin(f *metric.Family, k metric.Kind) {
	b.family, b.kind, b.totals = f, k, b.totals || export.Cumulative(k)
	b.metric = b.metrics.AppendEmpty()
	b.metric.SetName(strings.ToValidUTF8(f.Name, "\uFFFD"))
	switch k {
	case metric.Counter:
		sum := b.metric.SetEmptySum()
		sum.SetIsMonotonic(!b.falling[f.Name])
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case metric.Timer:
		b.metric.SetEmptySummary()
	default:
		b.metric.SetEmptyGauge()
	}
}

// fall makes the sums of a name not monotonic, here and in all later requests: a metric is either for
// all of its series.
func (b *batch) fall(name string) {
	b.falling[name] = true
	name = strings.ToValidUTF8(name, "\uFFFD")
	for _, m := range b.metrics.All() {
		if m.Type() == pmetric.MetricTypeSum && m.Name() == name {
			m.Sum().SetIsMonotonic(false)
		}
	}
}

// putAttributes puts the labels, and then the object, which no label replaces.
func putAttributes(to pcommon.Map, s *metric.LiveSeries) {
	for key, value := range s.Labels.All() {
		to.PutStr(strings.ToValidUTF8(key, "\uFFFD"), strings.ToValidUTF8(value, "\uFFFD"))
	}
	if s.Object.Namespace != "" {
		to.PutStr("k8s.namespace.name", s.Object.Namespace)
	}
	if s.Object.External() {
		return
	}
	if key, known := objectKeys[s.Object.Resource]; known {
		to.PutStr(key, s.Object.Name)
		return
	}
	to.PutStr("k8s.object.resource", s.Object.Resource)
	to.PutStr("k8s.object.name", s.Object.Name)
}
