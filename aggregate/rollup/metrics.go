package rollup

import "github.com/prometheus/client_golang/prometheus"

// Register registers the tracker's metrics.
func (m *Tracker) Register(r prometheus.Registerer) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_workloads",
		Help: "Workloads whose pods have pushed counters or sets, so their other pods read 0.",
	}, func() float64 {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return float64(len(m.records))
	}))
}
