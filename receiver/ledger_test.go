package receiver

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/metric"
)

// Every account's figures are shown, summed by receiver, and the law holds among what is shown.
func TestLedgerShowsTheLaw(t *testing.T) {
	ledger := NewLedger()
	for n := range uint64(2) {
		a := ledger.Open("statsd_udp")
		a.CountBatch(10 + n)
		a.Count(metric.Applied)
		for i, r := range metric.Reasons() {
			for range i + 1 {
				a.Count(r)
			}
		}
		a.Packets(3, 100)
		a.KernelDrops(7)
	}
	reasons := uint64(len(metric.Reasons()))
	rejected := reasons * (reasons + 1)
	want := map[string]uint64{
		"sluice_samples_received_total": 23 + rejected,
		"sluice_samples_applied_total":  23,
		"sluice_samples_rejected_total": rejected,
		"sluice_packets_received_total": 6,
		"sluice_received_bytes_total":   200,
		"sluice_kernel_drops_total":     14,
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(ledger); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		sum := 0.0
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue()
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
