package receiver

import (
	"context"
	"log/slog"
	"net"
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
		if err != nil {
			t.Fatal(err)
		}
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

// A server that parts from its clients ends what it writes to those of TCP, also to those that come later, and still
// takes what they send. What Unix clients wrote before is applied; then their write fails.
func TestPart(t *testing.T) {
	f := serve(t, testConfig(tcp, unixStream(t), Listener{Network: "unixgram", Address: socketPath(t)}, udp(1)))
	var all []net.Conn
	for i := range 4 {
		all = append(all, f.dial(i))
		f.send(all[i], "jobs:1|c\n")
	}
	f.eventually("the first lines", func() bool { return f.recorder.sum("jobs") == 4 })
	f.server.Part()
	for i, conn := range []net.Conn{all[0], f.dial(0)} {
		if !closedByServer(conn) {
			t.Errorf("the TCP connection %d is not asked to go", i)
		}
		f.send(conn, "jobs:1|c\n")
	}
	for _, conn := range all[1:3] {
		f.eventually("a write that fails", func() bool { _, err := conn.Write(nil); return err != nil || !dials(conn) })
	}
	f.send(all[3], "jobs:1|c\n")
	f.eventually("all lines", func() bool { return f.recorder.sum("jobs") == 7 })
}

// dials reports whether somebody listens where a connection leads.
func dials(conn net.Conn) bool {
	another, err := net.Dial(conn.RemoteAddr().Network(), conn.RemoteAddr().String())
	if err != nil {
		return false
	}
	another.Close()
	return true
}
