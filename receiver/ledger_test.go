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
		a := ledger.OpenDatagrams("statsd_udp")
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
			a.hold()
		}
		a.settle(metric.Applied, 3)
		a.settle(metric.Identity, 2)
	}
	ledger.Open("http").AddPackets(1, 1)
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

// Every receiver is shown before anything came, and the kernel's drops only where it can drop.
func TestReceiversAreShownFromTheStart(t *testing.T) {
	f := bind(t, testConfig(udp(2), tcp, Listener{Network: "unixgram", Address: socketPath(t)}, Listener{Network: "unix", Address: socketPath(t)}))
	defer f.server.Close()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(f.ledger); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]map[string]bool{}
	for _, family := range families {
		shown[family.GetName()] = map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetName() == "receiver" {
					shown[family.GetName()][pair.GetValue()] = true
				}
			}
		}
	}
	for name, receivers := range shown {
		for receiver, datagrams := range map[string]bool{"statsd_udp": true, "statsd_tcp": false, "statsd_unixgram": true, "statsd_unix": false} {
			if want := datagrams || name != "sluice_kernel_drops_total"; receivers[receiver] != want {
				t.Errorf("%s of %s: %v, want %v", name, receiver, receivers[receiver], want)
			}
		}
	}
	if len(shown) != 7 {
		t.Errorf("%d metrics, want 7", len(shown))
	}
}
