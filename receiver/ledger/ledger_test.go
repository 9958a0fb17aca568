package ledger

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/metric"
)

// Every account's figures are shown, summed by receiver, and the law holds among what is shown.
func TestLedgerShowsTheLaw(t *testing.T) {
	l := New()
	for n := range uint64(2) {
		a := l.OpenDatagrams("statsd_udp")
		a.CountApplied(10 + n)
		a.Count(metric.Applied)
		for i, r := range metric.Reasons() {
			for range i + 1 {
				a.Count(r)
			}
		}
		a.AddPackets(3, 100)
		a.SetKernelDrops(7)
		for range 9 {
			a.Hold()
		}
		a.Settle(metric.Applied, 3)
		a.Settle(metric.Identity, 2)
	}
	l.Open("http").AddPackets(1, 1)
	reasons := uint64(len(metric.Reasons()))
	rejected := reasons * (reasons + 1)
	want := map[string]uint64{
		"sluice_samples_received_total": 23 + rejected + 18,
		"sluice_samples_applied_total":  23 + 6,
		"sluice_samples_rejected_total": rejected + 4,
		"sluice_samples_pending":        8,
		"sluice_packets_received_total": 7,
		"sluice_received_bytes_total":   201,
		"sluice_kernel_drops_total":     14,
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(l); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		sum := 0.0
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		if sum != float64(want[family.GetName()]) {
			t.Errorf("%s: %v, want %d", family.GetName(), sum, want[family.GetName()])
		}
		delete(want, family.GetName())
	}
	for name := range want {
		t.Errorf("no %s", name)
	}
}
