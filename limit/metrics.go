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
			Help: "Times that a new series was refused by a limit, by the namespace that it would be in. What is sent again in vain is decided once, and counted in sluice_samples_rejected_total.",
		}, []string{"namespace"}),
		shed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_limit_shed_metrics_total",
			Help: "Metrics of one object that lost their slot: to one that an autoscaler asks for, for a lower limit, or because they were idle.",
		}),
	}
}

func (c metrics) countRejection(namespace string) { c.rejections.WithLabelValues(namespace).Inc() }

// Register shows the book's metrics.
func (b *Registry) Register(r prometheus.Registerer) error {
	for _, one := range []prometheus.Collector{b.metrics.rejections, b.metrics.shed} {
		if err := r.Register(one); err != nil {
			return err
		}
	}
	return nil
}
