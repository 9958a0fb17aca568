package workload

import "github.com/prometheus/client_golang/prometheus"

// Register shows the memory's metrics.
func (m *Tracker) Register(r prometheus.Registerer) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_workloads",
		Help: "Workloads of which it is remembered which counters and sets their pods pushed: their other pods read 0.",
	}, func() float64 {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return float64(len(m.records))
	}))
}
