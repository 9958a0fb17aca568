package otlp

import (
	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// scopeKey is the label of a scope's name.
//
// Source: https://opentelemetry.io/docs/specs/otel/common/mapping-to-non-otlp/#instrumentationscope
const scopeKey = "otel.scope.name"

// Libraries of one process may count under one name, with equal attributes. To OpenTelemetry their scopes keep the
// streams apart. As one series, each total would look like a reset of the other. So of the scopes with running totals
// of one name, the first in alphabetical order has the series without a label, and the others name themselves in it.
// Thus the former series goes on when a second scope appears. Deltas add up, and a gauge has its newest value.

// scopeCost is the memory of an entry of firstScopes, with the spare capacity of a map.
const scopeCost = 80

// setScopes reads which scope of a resource is the first with running totals of a name.
func (r *Reader) setScopes(all pmetric.ScopeMetricsSlice) {
	r.scopes, r.scopeAt = all, 0
	r.firstScopes = nil // not cleared: that takes as long as the largest map before
	if all.Len() < 2 {
		return
	}
	r.firstScopes = map[string]string{}
	for i := range all.Len() {
		scope, metrics := all.At(i).Scope().Name(), all.At(i).Metrics()
		for k := range metrics.Len() {
			m := pointsOf(metrics.At(k))
			if _, op := m.effect(); op != metric.Accumulate {
				continue
			}
			if first, several := r.firstScopes[m.name]; !several || scope < first {
				r.firstScopes[m.name] = scope
			}
		}
	}
}

// scopeOf returns the name of the current scope if the running totals of a metric need it as a label; else it is empty.
func (r *Reader) scopeOf(m *points) string {
	if r.firstScopes == nil {
		return ""
	}
	scope := r.scopes.At(r.scopeAt - 1).Scope().Name()
	if _, op := m.effect(); op != metric.Accumulate || scope == r.firstScopes[m.name] {
		return ""
	}
	return scope
}
