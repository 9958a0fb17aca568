package route

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of all providers.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	up       *prometheus.GaugeVec
}

// providerMetrics are those of one provider.
type providerMetrics struct {
	requests map[result]prometheus.Counter
	duration prometheus.Observer
	up       prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_route_requests_total",
			Help: "Queries for external metrics that are routed to another provider, by provider and result.",
		}, []string{"provider", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sluice_route_request_duration_seconds",
			Help:    "Duration of queries for external metrics that are routed to another provider.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10},
		}, []string{"provider"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_route_up",
			Help: "1 if another provider of external metrics answered when it was last asked, else 0.",
		}, []string{"provider"}),
	}
}

func (m *metrics) of(provider string) *providerMetrics {
	p := &providerMetrics{requests: map[result]prometheus.Counter{}, duration: m.duration.WithLabelValues(provider),
		up: m.up.WithLabelValues(provider)}
	for _, r := range []result{answered, notFound, rejected, denied, failed, unreachable, invalid, busy, loop, canceled} {
		p.requests[r] = m.requests.WithLabelValues(provider, string(r))
	}
	return p
}

func (p *providerMetrics) count(f *fault, took time.Duration) {
	r := answered
	if f != nil {
		r = f.result
	}
	p.requests[r].Inc()
	p.duration.Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (r *Router) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{r.metrics.requests, r.metrics.duration, r.metrics.up} {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (r *Router) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{r.metrics.requests, r.metrics.duration, r.metrics.up} {
		c.Collect(ch)
	}
}
