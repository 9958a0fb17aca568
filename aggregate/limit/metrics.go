package limit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	rejections *prometheus.CounterVec
	shed       prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_limit_refusals_total",
			Help: "New series rejected by a limit, by namespace. A series sent again is decided once; its samples count in sluice_samples_rejected_total.",
		}, []string{"namespace"}),
		shed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_limit_shed_metrics_total",
			Help: "Metrics of one object that were evicted: for one that an autoscaler names, by a lowered limit, or because they were idle.",
		}),
	}
}

func (c metrics) countRejection(namespace string) { c.rejections.WithLabelValues(namespace).Inc() }

// Register registers the registry's metrics.
func (r *Registry) Register(registerer prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{r.metrics.rejections, r.metrics.shed} {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
