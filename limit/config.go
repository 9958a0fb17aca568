package limit

import (
	"errors"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Config holds the default limits. A LimitRange of a namespace overrides them.
type Config struct {
	// PodMetrics and PodSeries limit each pod.
	PodMetrics int `json:"podMetrics"`
	PodSeries  int `json:"podSeries"`
	// NamespaceMetrics and NamespaceSeries limit a namespace: its external metrics and all objects
	// except pods.
	NamespaceMetrics int `json:"namespaceMetrics"`
	NamespaceSeries  int `json:"namespaceSeries"`
}

// DefaultConfig allows five metrics per pod, as many as Kubernetes' first custom pod metrics did.
func DefaultConfig() Config {
	return Config{PodMetrics: 5, PodSeries: 100, NamespaceMetrics: 100, NamespaceSeries: 5000}
}

// Max is the highest valid limit: no table holds more series.
const Max = 1_000_000_000

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	for _, one := range []struct {
		field string
		value int
	}{
		{"podMetrics", c.PodMetrics}, {"podSeries", c.PodSeries},
		{"namespaceMetrics", c.NamespaceMetrics}, {"namespaceSeries", c.NamespaceSeries},
	} {
		if one.value < 0 || one.value > Max {
			faults = append(faults, fmt.Errorf("%s is %d; must be 0 (nothing allowed) to %d", one.field, one.value, Max))
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
