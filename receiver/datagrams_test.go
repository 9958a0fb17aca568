package receiver

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

func udp(sockets int) Listener {
	return Listener{Network: "udp", Address: "127.0.0.1:0", Sockets: sockets, ReadBuffer: 1 << 20}
}

func TestUDP(t *testing.T) {
	f := serve(t, testConfig(udp(1)))
	conn := f.dial(0)
	const datagrams = 300 // some ten batches
	for range datagrams {
		f.send(conn, "a:1|c\nfoo:|g\nb:2:3|c\n\na:1|c|@0\n_e{1,1}:a|b\nc:5|c")
	}
	f.eventually("all samples", func() bool { return f.received() == 7*datagrams })
	for name, want := range map[string]int64{"a": 1, "b": 5, "c": 5} {
		if got := f.recorder.sum(name); got != want*datagrams {
			t.Errorf("%s: %d, want %d", name, got, want*datagrams)
		}
	}
	for reason, want := range map[metric.Reason]uint64{metric.Malformed: 1, metric.BadRate: 1, metric.Unsupported: 1} {
		if got := f.rejected(reason); got != want*datagrams {
			t.Errorf("%v: %d, want %d", reason, got, want*datagrams)
		}
	}
	if f.recorder.passed < datagrams/batchSize {
		t.Errorf("%d batch boundaries passed in %d datagrams", f.recorder.passed, datagrams)
	}
	if packets := f.total(func(a *ledger.Account) uint64 { return a.Packets() }); packets != datagrams {
		t.Errorf("%d packets, want %d", packets, datagrams)
	}
}

func TestUDPTakesTheLongestDatagram(t *testing.T) {
	f := serve(t, testConfig(udp(1)))
	const longest = 65507
	packet := strings.Repeat("a:1|c\n", longest/6) + strings.Repeat("\n", longest%6)
	f.send(f.dial(0), packet)
	f.eventually("all lines", func() bool { return f.received() >= longest/6 })
	if got := f.recorder.sum("a"); got != longest/6 || f.received() != longest/6 {
		t.Errorf("%d samples applied of %d, want %d", got, f.received(), longest/6)
	}
}

func TestUDPAnyAddress(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "localhost:0"} {
		l := udp(2)
		l.Address = address
		f := serve(t, testConfig(l))
		_, port, _ := net.SplitHostPort(f.server.Addrs()[0].String())
		conn, err := net.Dial("udp", "127.0.0.1:"+port)
		must(t, err)
		f.send(conn, "a:1|c")
		f.eventually(address, func() bool { return f.recorder.sum("a") == 1 })
		_ = conn.Close()
	}
}

func TestUDPDialect(t *testing.T) {
	dog := udp(1)
	dog.Dialect = statsd.Influx
	f := serve(t, testConfig(dog, udp(1)))
	f.send(f.dial(0), "a,k=v:1|c")
	f.send(f.dial(1), "b,k=v:1|c")
	f.eventually("both", func() bool { return f.recorder.sum("a") == 1 && f.recorder.sum("b,k=v") == 1 })
}

func TestUDPRefusedByTheTable(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	f.recorder.refuse = map[string]metric.Reason{"b": metric.KindConflict}
	f.run()
	f.send(f.dial(0), "a:1|c\nb:1|c\nc:1|c")
	f.eventually("all three", func() bool { return f.received() == 3 })
	if f.rejected(metric.KindConflict) != 1 || f.total((*ledger.Account).Applied) != 2 {
		t.Errorf("%d conflicts, %d applied", f.rejected(metric.KindConflict), f.total((*ledger.Account).Applied))
	}
	if want := `offset=0 line=b:1|c suppressed=0`; !strings.Contains(f.log.String(), want) {
		t.Errorf("log %s, want %s", f.log, want)
	}
}

// The law: sent = received + dropped by the kernel. The buffer is far too small for what comes
// before Run.
func TestUDPAccountsForKernelDrops(t *testing.T) {
	small := udp(1)
	small.ReadBuffer = 4096
	f := bind(t, testConfig(small))
	conn := f.dial(0)
	const first, burst = 200, 100
	for range first {
		f.sendQueued(conn, f.server.packets[0].socket, []byte("a:1|c"))
	}
	f.run()
	sent := uint64(first)
	f.eventually("the law", func() bool { return f.received()+f.drops() == sent })
	if f.drops() == 0 || f.received() == 0 {
		t.Fatalf("%d received, %d dropped: want some of both", f.received(), f.drops())
	}
	for range 5 { // and while it runs; the kernel's queue before the socket holds a burst
		for range burst {
			f.send(conn, "a:1|c")
		}
		sent += burst
		f.eventually("the law again", func() bool { return f.received()+f.drops() == sent })
	}
	f.stop()
	if f.received()+f.drops() != sent {
		t.Errorf("after the stop: %d sent, %d received, %d dropped", sent, f.received(), f.drops())
	}
}

func TestIdleThenWake(t *testing.T) {
	f := serve(t, testConfig(udp(2), Listener{Network: "unixgram", Address: socketPath(t)}))
	for i := range 3 {
		f.eventually("asleep", f.recorder.allParked)
		f.send(f.dial(i%2), "a:1|c")
		f.eventually("awake", func() bool { return f.recorder.sum("a") == int64(i+1) })
	}
	f.eventually("asleep", f.recorder.allParked)
	f.stop() // wakes it
}

func TestStopDrainsDatagrams(t *testing.T) {
	path := socketPath(t)
	f := bind(t, testConfig(udp(2), Listener{Network: "unixgram", Address: path}))
	for range 10 {
		conn := f.dial(0)
		for range 40 {
			f.sendQueued(conn, f.server.packets[0].socket, []byte("a:1|c"))
		}
	}
	unixgram := f.dial(1)
	for range 5 { // max_dgram_qlen may be as small as 10
		f.send(unixgram, "b:1|c")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.cancel = cancel
	f.start(ctx)
	f.stop()
	if f.recorder.sum("a") != 400 || f.recorder.sum("b") != 5 {
		t.Errorf("sums %v, want a 400 and b 5", f.recorder.sums)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket's file is still there")
	}
	f.server.Close() // again: must not close descriptors that others have by now
}

// A stop shuts the entrance first, so that draining ends: what comes later is a kernel drop.
func TestStopShutsTheEntrance(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	defer f.server.Close()
	d := &datagrams{in: f.server.newIngester(udp(1), f.server.packets[0].account), turn: turn{all: &f.server.arrivals}, socket: f.server.packets[0].socket, drainTimeout: time.Hour}
	conn := f.dial(0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.sendQueued(conn, d.socket, []byte("a:1|c"))
	if !d.step(ctx) {
		t.Error("the stop did not wait for the socket to be empty")
	}
	f.send(conn, "a:1|c")
	f.eventually("a drop", func() bool { d.countDrops(); return f.drops() == 1 })
	if d.step(ctx) || f.recorder.sum("a") != 1 {
		t.Errorf("the stop goes on reading: sum %d, want 1", f.recorder.sum("a"))
	}
}

// A parsed line takes a hundred times as long as a known one: goroutines that wait for the network
// run within a batch of them.
func TestTurnsAreTakenWithinABatch(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	defer f.server.Close()
	d := &datagrams{in: f.server.newIngester(udp(1), f.server.packets[0].account), turn: turn{all: &f.server.arrivals}, socket: f.server.packets[0].socket}
	// Lines are parsed when so many are collected, or at the end of the batch.
	for lines, want := range map[int]bool{2*maxBatchLines - 1: false, 2 * maxBatchLines: true} {
		f.sendQueued(f.dial(0), d.socket, bytes.Repeat([]byte("a:1|c\n"), lines))
		n, err := d.socket.receive()
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		long := time.Now().Add(-time.Hour)
		d.busySince, d.in.parsedLines = long, 0
		d.applyBatch(n)
		if took := d.busySince != long; took != want {
			t.Errorf("%d lines were parsed: others had a turn: %v, want %v", lines, took, want)
		}
	}
}

func TestStopUnderFire(t *testing.T) {
	f := serve(t, testConfig(udp(1)))
	conn := f.dial(0)
	halt := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			select {
			case <-halt:
				return
			default:
				_, _ = conn.Write([]byte("a:1|c"))
			}
		}
	})
	f.eventually("some", func() bool { return f.recorder.sum("a") > 100 })
	f.stop() // ends although datagrams are sent still
	close(halt)
	sender.Wait()
}

func TestUnixgram(t *testing.T) {
	path := socketPath(t)
	f := serve(t, testConfig(Listener{Network: "unixgram", Address: path, Dialect: statsd.DogStatsD}))
	if mode, err := os.Stat(path); err != nil || mode.Mode().Perm() != socketMode {
		t.Errorf("file %v, %v; want mode %o", mode, err, socketMode)
	}
	conn := f.dial(0)
	for range 100 {
		f.send(conn, "a:-1|g\nb:1|c|#k:v")
	}
	f.eventually("all", func() bool { return f.recorder.sum("a") == -100 && f.recorder.sum("b") == 100 })
}

// A datagram that does not fit leaves its last line in two: the whole ones are applied.
func TestTruncatedDatagram(t *testing.T) {
	f := serve(t, testConfig(Listener{Network: "unixgram", Address: socketPath(t)}))
	conn := f.dial(0)
	must(t, conn.(*net.UnixConn).SetWriteBuffer(1<<20))
	lines := packetBytes/6 + 100
	f.send(conn, strings.Repeat("a:1|c\n", lines))
	whole := int64(packetBytes / 6)
	f.eventually("all that came", func() bool { return f.received() == uint64(whole)+1 })
	if f.recorder.sum("a") != whole || f.rejected(metric.TooLong) != 1 {
		t.Errorf("%d applied and %d too long, want %d and 1", f.recorder.sum("a"), f.rejected(metric.TooLong), whole)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	for name, senders := range map[string]PacketSenders{"nobody asks": nil, "known": everybody{&metric.Sender{Key: 1, Known: true}}, "unknown": everybody{}} {
		t.Run(name, func(t *testing.T) { readWithoutAllocating(t, senders) })
	}
}

// everybody has every address.
type everybody struct{ sender *metric.Sender }

func (e everybody) Sender(netip.Addr) *metric.Sender { return e.sender }
func (e everybody) Prefetch([]netip.Addr)            {}

func readWithoutAllocating(t *testing.T, senders PacketSenders) {
	f := bindParts(t, testConfig(udp(1)), func(p *Parts) { p.Senders = senders })
	d := &datagrams{in: f.server.newIngester(udp(1), f.server.packets[0].account), turn: turn{all: &f.server.arrivals}, socket: f.server.packets[0].socket}
	defer f.server.Close()
	conn := f.dial(0)
	packet := []byte("a:1|c|#k:v\nb:0.5:3|ms|@0.1\nc:x|s")
	d.in.applier = &nothing{}
	allocs := testing.AllocsPerRun(100, func() {
		for range 3 {
			f.sendQueued(conn, d.socket, packet)
		}
		n, err := d.socket.receive()
		if n != 3 || err != nil {
			t.Errorf("%d datagrams, %v", n, err)
		}
		d.applyBatch(n)
		d.countDrops()
	})
	if allocs != 0 {
		t.Errorf("%v allocations a batch, want 0", allocs)
	}
	if got := d.in.account.Applied(); got != 101*3*4 {
		t.Errorf("%d applied", got)
	}
	if named := d.in.scanner.Sample.Sender != nil; named != (senders != nil) {
		t.Errorf("the samples name a sender: %t", named)
	}
}

// nothing applies everything.
type nothing struct {
	knowsNone
	Applier
}

func (*nothing) Apply(*metric.Sample) metric.Reason { return metric.Applied }
func (*nothing) Quiesce()                           {}

func TestPortInUse(t *testing.T) {
	dir := t.TempDir()
	for _, l := range []Listener{
		udp(1), udp(4),
		{Network: "tcp", Address: "127.0.0.1:0"},
		{Network: "unixgram", Address: dir + "/gram"},
		{Network: "unix", Address: dir + "/stream"},
	} {
		t.Run(fmt.Sprint(l.Network, l.Sockets), func(t *testing.T) {
			f := serve(t, testConfig(l))
			l.Address = f.server.Addrs()[0].String()
			for sockets := range 3 {
				if l.Sockets = sockets; sockets > 1 && l.Network != "udp" {
					continue
				}
				_, err := New(testConfig(udp(1), l), Parts{NewApplier: f.recorder.newApplier, Ledger: f.ledger, Logger: f.server.logger})
				want := "cannot listen on " + l.Network + " " + l.Address + ": the address is in use by another process, such as another StatsD server: address already in use"
				if err == nil || err.Error() != want {
					t.Errorf("%d sockets: %v, want %s", sockets, err, want)
				}
			}
			f.send(f.dial(0), "a:1|c\n")
			if l.Network != "unix" {
				f.eventually("the first still serves", func() bool { return f.recorder.sum("a") == 1 })
			}
		})
	}
}

func TestStaleSocketFile(t *testing.T) {
	for _, network := range []string{"unixgram", "unix"} {
		t.Run(network, func(t *testing.T) {
			path := socketPath(t)
			leaveBehind(t, network, path)
			f := serve(t, testConfig(Listener{Network: network, Address: path}))
			f.dial(0)
			f.stop()
			if _, err := os.Stat(path); err == nil {
				t.Error("the socket's file is still there")
			}
		})
		t.Run(network+", a file that is no socket", func(t *testing.T) {
			path := socketPath(t)
			must(t, os.WriteFile(path, []byte("precious"), 0o600))
			_, err := New(testConfig(Listener{Network: network, Address: path}), Parts{Ledger: ledger.New(), Logger: bind(t, testConfig()).server.logger})
			if err == nil || !strings.Contains(err.Error(), "is not a socket") {
				t.Errorf("%v", err)
			}
			if text, _ := os.ReadFile(path); string(text) != "precious" {
				t.Error("the file is gone")
			}
		})
	}
}

// leaveBehind makes the socket file of a process that was killed.
func leaveBehind(t *testing.T, network, path string) {
	t.Helper()
	addr := &net.UnixAddr{Net: network, Name: path}
	if network == "unixgram" {
		conn, err := net.ListenUnixgram(network, addr)
		must(t, err)
		_ = conn.Close() // which leaves a datagram socket's file
	} else {
		listener, err := net.ListenUnix(network, addr)
		must(t, err)
		listener.SetUnlinkOnClose(false)
		_ = listener.Close()
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

// foresight is a directory that records the announced senders.
type foresight struct {
	directory
	told [][]netip.Addr
}

func (f *foresight) Prefetch(all []netip.Addr) { f.told = append(f.told, slices.Clone(all)) }

// Senders are told of those of a batch before they are asked about each, where there are several.
func TestSendersAreForetold(t *testing.T) {
	ahead := &foresight{}
	f := bindParts(t, testConfig(udp(1)), func(p *Parts) { p.Senders = ahead })
	defer f.server.Close()
	d := &datagrams{in: f.server.newIngester(udp(1), f.server.packets[0].account), turn: turn{all: &f.server.arrivals}, socket: f.server.packets[0].socket}
	take := func(from ...string) {
		for _, address := range from {
			f.sendQueued(f.dialFrom(0, address), d.socket, []byte("a:1|c"))
		}
		n, err := d.socket.receive()
		if n != len(from) || err != nil {
			t.Fatalf("%d datagrams, %v", n, err)
		}
		d.applyBatch(n)
	}
	take("127.0.0.2", "127.0.0.2")
	take("127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4")
	want := [][]netip.Addr{{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.4")}}
	if !reflect.DeepEqual(ahead.told, want) {
		t.Errorf("told of %v, want %v", ahead.told, want)
	}
	if ahead.asked != 1+3 {
		t.Errorf("asked %d times", ahead.asked)
	}
}

// A full socket keeps the processor as long as others had it the last time, but not for ever.
func TestTurnsAreAsLongAsThoseOfOthers(t *testing.T) { synctest.Test(t, turnsByThoseOfOthers) }

func turnsByThoseOfOthers(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	defer f.server.Close()
	for _, test := range []struct {
		others, kept time.Duration
		yields       bool
	}{
		{0, minBusyTime, false},
		{0, minBusyTime + 1, true},
		{5 * minBusyTime, 5 * minBusyTime, false},
		{5 * minBusyTime, 5*minBusyTime + 1, true},
		{time.Hour, maxBusyTime, false},
		{time.Hour, maxBusyTime + 1, true},
	} {
		d := &datagrams{turn: turn{all: &f.server.arrivals}, socket: f.server.packets[0].socket, othersTime: test.others, busySince: time.Now().Add(-test.kept)}
		before := d.busySince
		d.yieldIfBusy()
		if yields := d.busySince != before; yields != test.yields {
			t.Errorf("others had %v, kept for %v: others have their turn %v, want %v", test.others, test.kept, yields, test.yields)
		}
	}
}

// Datagrams gather for milliseconds, but a read never waits for them: after Freshen, every sample
// that was sent before is in the table, whether the socket's goroutine gathers, waits or works.
func TestAReadSeesWhatWasSentBefore(t *testing.T) { synctest.Test(t, readWhileGathering) }

// readWhileGathering runs in a bubble, whose clock stands still while the test is not asleep: a
// socket's goroutine that gathers goes on only after the test.
func readWhileGathering(t *testing.T) {
	f := serve(t, testConfig(udp(1), Listener{Network: "unixgram", Address: socketPath(t)}))
	await := func(what string, holds func() bool) {
		for polls := 0; !holds(); polls++ {
			if polls == 60_000 {
				t.Fatalf("%s: sums %v", what, f.recorder.sums)
			}
			_, _ = unix.Poll(nil, 1) // a millisecond of the kernel's time
		}
	}
	for socket, network := range []string{"udp", "unixgram"} {
		conn, name := f.dial(socket), string(rune('a'+socket))
		f.send(conn, name+":1|c")
		await("the goroutine runs", func() bool { return f.recorder.sum(name) == 1 }) // and gathers now
		for i := range 50 {
			f.send(conn, name+":1|c")
			await("a read of "+network, func() bool { f.server.Freshen(); return f.recorder.sum(name) == int64(i+2) })
		}
	}
}

func TestFreshenIsHarmlessBeforeRunAndAfterTheStop(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	f.send(f.dial(0), "a:1|c")
	f.server.Freshen()
	f.run()
	f.eventually("the sample", func() bool { return f.recorder.sum("a") == 1 })
	f.stop()
	f.server.Freshen()
	if f.recorder.sum("a") != 1 {
		t.Errorf("%d samples", f.recorder.sum("a"))
	}
}

// Reads during a flood are served in turn with the socket's goroutine, and nothing is lost or
// counted twice.
func TestFreshenDuringAFlood(t *testing.T) {
	f := serve(t, testConfig(udp(2)))
	var senders, readers sync.WaitGroup
	const floods, each = 20, 100
	var conns []net.Conn
	for range 4 {
		conns = append(conns, f.dial(0))
	}
	ctx, halt := context.WithCancel(context.Background())
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				f.server.Freshen()
			}
		})
	}
	for flood := range uint64(floods) { // the kernel's queue before the sockets holds one
		for _, conn := range conns {
			senders.Go(func() {
				for range each {
					_, _ = conn.Write([]byte("a:1|c\nb:1|c"))
				}
			})
		}
		senders.Wait()
		f.eventually("all samples", func() bool { return f.received()+2*f.drops() == 2*4*each*(flood+1) })
	}
	halt()
	readers.Wait()
}
