package receiver

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// A receiver without listeners runs until its context ends: an early return would look like a
// failure.
func TestRunWithoutListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := DefaultConfig()
		config.Listeners = nil
		s, err := New(config, Parts{Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("Run ended by itself")
		}
		cancel()
		synctest.Wait()
		if !ended {
			t.Error("Run goes on after its context ended")
		}
	})
}

// Every receiver is shown before anything came, and the kernel's drops only where it can drop.
func TestReceiversAreShownFromTheStart(t *testing.T) {
	f := bind(t, testConfig(udp(2), tcp, Listener{Network: "unixgram", Address: socketPath(t)}, Listener{Network: "unix", Address: socketPath(t)}))
	defer f.server.Close()
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(f.ledger))
	families, err := registry.Gather()
	must(t, err)
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
