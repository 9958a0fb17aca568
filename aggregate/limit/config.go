package limit

import (
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
)

// Config has the limits of a namespace without a LimitRange of Sluice's types.
type Config struct {
	// PodMetrics and PodSeries bound the metrics and the series of each pod.
	PodMetrics int
	PodSeries  int
	// NamespaceMetrics and NamespaceSeries bound those of a namespace's external metrics and of all
	// its objects but pods.
	NamespaceMetrics int
	NamespaceSeries  int
	// Origin is the name of this replica; empty: there are no others.
	Origin string
}

// DefaultConfig admits five metrics per pod, as the first design of custom pod metrics in
// Kubernetes did.
func DefaultConfig() Config {
	return Config{PodMetrics: 5, PodSeries: 100, NamespaceMetrics: 100, NamespaceSeries: 5000}
}

// Max is the highest limit that is accepted; no table holds more series.
const Max = 1_000_000_000

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	for _, limit := range []struct {
		field config.Field
		value int
	}{
		{"PodMetrics", c.PodMetrics}, {"PodSeries", c.PodSeries},
		{"NamespaceMetrics", c.NamespaceMetrics}, {"NamespaceSeries", c.NamespaceSeries},
	} {
		if limit.value < 0 || limit.value > Max {
			faults.Add(limit.field, "is %d; must be from 0 (none are admitted) to %d", limit.value, Max)
		}
	}
	return faults.Join()
}

func (c Config) limits() metric.Limits {
	return metric.Limits{
		Pod:       metric.Limit{Metrics: c.PodMetrics, Series: c.PodSeries},
		Namespace: metric.Limit{Metrics: c.NamespaceMetrics, Series: c.NamespaceSeries},
	}
}
