package wake

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// cooldownResult is the label of a positive value during the cooldown. It is no attempt.
const cooldownResult = "cooldown"

var armedDesc = prometheus.NewDesc("sluice_wake_armed",
	"Autoscalers with the annotation sluice.dev/wake whose target stands at zero, and is woken by a positive value.", nil, nil)

// counters count attempts.
type counters struct {
	wakes *prometheus.CounterVec
	armed atomic.Int64
}

func newCounters() *counters {
	c := &counters{wakes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_wakes_total",
		Help: "Positive values of autoscalers at zero, by result: woken, awake (it had replicas already), cooldown (not tried), forbidden, gone, refused, conflict, silent (no answer).",
	}, []string{"result"})}
	for _, one := range outcomes {
		c.wakes.WithLabelValues(string(one))
	}
	c.wakes.WithLabelValues(cooldownResult)
	return c
}

func (c *counters) outcome(one Outcome) { c.wakes.WithLabelValues(string(one)).Inc() }

func (c *counters) cooldown() { c.wakes.WithLabelValues(cooldownResult).Inc() }

// Describe implements prometheus.Collector.
func (c *counters) Describe(ch chan<- *prometheus.Desc) {
	ch <- armedDesc
	c.wakes.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *counters) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(armedDesc, prometheus.GaugeValue, float64(c.armed.Load()))
	c.wakes.Collect(ch)
}

// Collector returns the metrics of the Waker.
func (w *Waker) Collector() prometheus.Collector { return w.count }
