package receiver

import (
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// While one goroutine keeps up, one socket gets everything: each socket in use costs wake-ups.
func TestOneSocketGetsEverythingUntilItIsOverloaded(t *testing.T) {
	f := bind(t, testConfig(udp(4)))
	if len(f.server.packets) != 4 {
		t.Fatalf("%d sockets, want 4", len(f.server.packets))
	}
	first := f.server.packets[0].socket
	send := func() {
		for range 32 {
			conn := f.dial(0)
			for range 50 {
				f.send(conn, "a:1|c")
			}
		}
	}
	used := func() uint64 {
		return f.total(func(a *ledger.Account) uint64 { return min(a.Applied(), 1) })
	}
	send()
	d := &datagrams{in: f.server.newIngester(udp(4), f.server.packets[0].account), socket: first}
	for full := true; full; {
		n, err := first.receive()
		if err != nil {
			t.Fatal(err)
		}
		d.applyBatch(n)
		full = n == batchSize
	}
	if got := f.recorder.sum("a"); got != 32*50 {
		t.Fatalf("the first socket got %d of %d samples", got, 32*50)
	}
	now := time.Now()
	for _, test := range []struct {
		full time.Duration
		want bool
	}{{overloadTime / 2, false}, {2 * overloadTime, true}} {
		d.fullSince, d.busySince = now.Add(-test.full), now.Add(-time.Hour)
		if d.yieldIfBusy(); first.group.spread != test.want {
			t.Fatalf("after %v of full batches the load is spread: %t, want %t", test.full, first.group.spread, test.want)
		}
	}
	d.in.applier.Close()
	f.run()
	send()
	f.eventually("all samples", func() bool { return f.recorder.sum("a") == 2*32*50 })
	if used() < 2 {
		t.Error("the load is not spread")
	}
}
