package limit

import (
	"errors"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Config is what holds where a namespace says nothing else.
type Config struct {
	// PodMetrics and PodSeries are what each pod may have.
	PodMetrics int `json:"podMetrics"`
	PodSeries  int `json:"podSeries"`
	// NamespaceMetrics and NamespaceSeries are what a namespace may have for its external metrics and all objects but pods.
	NamespaceMetrics int `json:"namespaceMetrics"`
	NamespaceSeries  int `json:"namespaceSeries"`
}

// DefaultConfig has five metrics a pod: the seed of custom pod metrics in Kubernetes began with as many.
func DefaultConfig() Config {
	return Config{PodMetrics: 5, PodSeries: 100, NamespaceMetrics: 100, NamespaceSeries: 5000}
}

// Max is the largest limit that is believed: no table holds more series.
const Max = 1_000_000_000

// Validate names every fault at once.
func (c Config) Validate() error {
	var faults []error
	for _, one := range []struct {
		field string
		value int
	}{{"podMetrics", c.PodMetrics}, {"podSeries", c.PodSeries}, {"namespaceMetrics", c.NamespaceMetrics}, {"namespaceSeries", c.NamespaceSeries}} {
		if one.value < 0 || one.value > Max {
			faults = append(faults, fmt.Errorf("%s: %d, want 0 (none may be) to %d", one.field, one.value, Max))
		}
	}
	return errors.Join(faults...)
}

func (c Config) limits() metric.Limits {
	return metric.Limits{
		Pod:       metric.Limit{Metrics: c.PodMetrics, Series: c.PodSeries},
		Namespace: metric.Limit{Metrics: c.NamespaceMetrics, Series: c.NamespaceSeries},
	}
}
