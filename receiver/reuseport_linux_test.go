package receiver

import (
	"net"
	"testing"
	"testing/synctest"
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
	const senders, each = 32, 10
	var conns []net.Conn
	for range senders {
		conns = append(conns, f.dial(0))
	}
	used := func() uint64 {
		return f.total(func(a *ledger.Account) uint64 { return min(a.Applied(), 1) })
	}
	for range each {
		for _, conn := range conns {
			f.sendQueued(conn, first, []byte("a:1|c"))
		}
	}
	d := &datagrams{in: f.server.newIngester(udp(4), f.server.packets[0].account), turn: turn{all: &f.server.arrivals}, socket: first}
	for full := true; full; {
		n, err := first.receive()
		must(t, err)
		d.applyBatch(n)
		full = n == batchSize
	}
	if got := f.recorder.sum("a"); got != senders*each {
		t.Fatalf("the first socket got %d of %d samples", got, senders*each)
	}
	synctest.Test(t, func(t *testing.T) { // yieldIfBusy reads the clock
		for _, test := range []struct {
			full time.Duration
			want bool
		}{{overloadTime, false}, {overloadTime + 1, true}} {
			now := time.Now()
			d.fullSince, d.busySince = now.Add(-test.full), now.Add(-time.Hour)
			if d.yieldIfBusy(); first.group.spread != test.want {
				t.Fatalf("after %v of full batches the load is spread: %t, want %t", test.full, first.group.spread, test.want)
			}
		}
	})
	d.in.applier.Close()
	f.run()
	for range each {
		for _, conn := range conns {
			f.send(conn, "a:1|c")
		}
	}
	f.eventually("all samples", func() bool { return f.recorder.sum("a") == 2*senders*each })
	if used() < 2 {
		t.Error("the load is not spread")
	}
}
