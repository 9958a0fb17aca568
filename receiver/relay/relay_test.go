package relay

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// running runs a Relay for the test's time. The returned function stops it and waits.
func running(t *testing.T, c Config) (r *Relay, stop func()) {
	t.Helper()
	r, err := New(c, slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return r, stop
}

func relayTo(targets ...string) Config {
	c := DefaultConfig()
	c.Targets = targets
	return c
}

func udpServer(t *testing.T) net.PacketConn {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { server.Close() })
	return server
}

func tcpServer(t *testing.T) net.Listener {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { server.Close() })
	return server
}

// packet reads one datagram.
func packet(t *testing.T, server net.PacketConn) string {
	t.Helper()
	buffer := make([]byte, 64<<10)
	server.SetReadDeadline(time.Now().Add(time.Minute))
	n, _, err := server.ReadFrom(buffer)
	must(t, err)
	return string(buffer[:n])
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: ", what)
		}
	}
}

func TestLinesArriveAsTheyCame(t *testing.T) {
	udp, tcp := udpServer(t), tcpServer(t)
	r, _ := running(t, relayTo("udp://"+udp.LocalAddr().String(), "tcp://"+tcp.Addr().String()))
	lines := []string{"a:1|c|@0.5|#x:y,z", "not StatsD at all", "b:2|ms\r", "_e{1,1}:a|b"}
	r.Relay([]byte(lines[0] + "\n" + lines[1]))
	r.Relay(nil)
	r.Relay([]byte(lines[2] + "\n"))
	r.Relay([]byte(lines[3]))
	want := strings.Join(lines, "\n")
	if got := packet(t, udp); got != want {
		t.Errorf("UDP: %q", got)
	}
	conn, err := tcp.Accept()
	must(t, err)
	defer conn.Close()
	got := make([]byte, len(want)+1)
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	for n := 0; n < len(got); {
		more, err := conn.Read(got[n:])
		must(t, err)
		n += more
	}
	if string(got) != want+"\n" {
		t.Errorf("TCP: %q", got)
	}
	for _, target := range r.targets {
		eventually(t, "4 sent", func() bool { return target.sent.Load() == 4 })
		if target.dropped.Load()+target.failed.Load() > 0 {
			t.Errorf("%s lost lines", target.name)
		}
	}
}

func TestDatagramsAreSplitAtLines(t *testing.T) {
	udp := udpServer(t)
	r, _ := running(t, relayTo(udp.LocalAddr().String()))
	long := strings.Repeat("x", 2000)
	line := strings.Repeat("y", 715)
	r.Relay([]byte(line + "\n" + line + "0\n" + line + "\n" + long + "\n" + line))
	for _, want := range []string{line + "\n" + line + "0", line, long, line} {
		if got := packet(t, udp); got != want {
			t.Errorf("got %d bytes, want %d", len(got), len(want))
		}
	}
}

// A target that is down, or reads nothing, costs its queue and delays nobody.
func TestDeadTargets(t *testing.T) {
	unread := tcpServer(t) // accepts in the kernel, and reads nothing
	gone := tcpServer(t)
	gone.Close()
	alive := udpServer(t)
	c := relayTo("tcp://"+gone.Addr().String(), "tcp://"+unread.Addr().String(), alive.LocalAddr().String())
	c.QueueBytes = minQueue
	r, _ := running(t, c)
	piece := bytes.Repeat([]byte("a:1|c\n"), 100)
	eventually(t, "both queues are full", func() bool {
		for range 1000 {
			r.Relay(piece)
		}
		return r.targets[0].dropped.Load() > 0 && r.targets[1].dropped.Load() > 0
	})
	if got := packet(t, alive); !strings.HasPrefix(got, "a:1|c\n") {
		t.Errorf("%q", got)
	}
	if size := r.targets[0].size(); size > minQueue {
		t.Errorf("%d bytes wait", size)
	}
}

// A queue takes lines up to its size, and drops those that find no room whole.
func TestAQueueIsFilledToItsSize(t *testing.T) {
	q := newQueue(2 * len("a:1|c\n"))
	for range 3 {
		q.add([]byte("a:1|c"))
	}
	if q.size() != q.most || q.dropped.Load() != 1 {
		t.Errorf("%d of %d bytes wait and %d lines are dropped, want a full queue and 1", q.size(), q.most, q.dropped.Load())
	}
}

// A failed write costs the lines behind it, too: each line is sent, dropped or failed.
func TestLinesBehindAFailedWriteCount(t *testing.T) {
	client, server := net.Pipe()
	server.Close()
	lost := &target{network: "tcp", queue: newQueue(minQueue), log: slog.New(slog.DiscardHandler), ended: t.Context(), conn: client}
	lines := bytes.Repeat([]byte("a:1|c\n"), 3*maxWrite/len("a:1|c\n"))
	lost.send(lines)
	if sent, failed := lost.sent.Load(), lost.failed.Load(); sent != 0 || failed != countLines(lines) {
		t.Errorf("%d lines are sent and %d failed, want all %d to fail", sent, failed, countLines(lines))
	}
}

// noted is a connection that remembers that it was closed.
type noted struct {
	net.Conn
	closed bool
}

func (n *noted) Close() error { n.closed = true; return n.Conn.Close() }

// A server that comes back gets the lines that waited, and whole lines only. The connection is a
// pipe in the bubble's time: no port has to stay free.
func TestATargetThatRestarts(t *testing.T) { synctest.Test(t, restart) }

func restart(t *testing.T) {
	r, err := New(relayTo("tcp://server:1"), slog.New(slog.DiscardHandler))
	must(t, err)
	var up atomic.Bool
	var last *noted
	servers := make(chan net.Conn, 1)
	target := r.targets[0]
	target.dial = func(context.Context, string, string) (net.Conn, error) {
		if !up.Load() {
			return nil, syscall.ECONNREFUSED
		}
		client, server := net.Pipe()
		servers <- server
		last = &noted{Conn: client}
		return last, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	up.Store(true)
	r.Relay([]byte("before:1|c"))
	first := <-servers
	if line, err := bufio.NewReader(first).ReadString('\n'); line != "before:1|c\n" {
		t.Fatalf("%q, %v", line, err)
	}
	up.Store(false)
	first.Close()
	synctest.Wait()
	if !last.closed { // or the next line would go nowhere and count as sent
		t.Error("the connection stays open after the server closed it")
	}
	r.Relay([]byte("lost:1|c")) // its write finds that the server is gone
	time.Sleep(gatherTime)
	synctest.Wait()
	var want strings.Builder
	for i := range 20 {
		fmt.Fprintf(&want, "during%d:1|c\n", i)
		r.Relay(fmt.Appendf(nil, "during%d:1|c", i))
		time.Sleep(time.Second)
	}
	up.Store(true)
	r.Relay([]byte("after:1|c"))
	second := <-servers
	want.WriteString("after:1|c\n")
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(second, got); err != nil || string(got) != want.String() {
		t.Errorf("%q, %v", got, err)
	}
	synctest.Wait()
	if sent, failed := target.sent.Load(), target.failed.Load(); sent != 22 || failed != 1 || target.dropped.Load() != 0 {
		t.Errorf("%d lines are sent and %d lost, want 22 and 1", sent, failed)
	}
	cancel()
	<-ended
}

// Lines that wait at the end are sent.
func TestStopSendsTheRest(t *testing.T) {
	udp := udpServer(t)
	r, stop := running(t, relayTo(udp.LocalAddr().String()))
	r.Relay([]byte("last:1|c"))
	stop()
	if got := packet(t, udp); got != "last:1|c" {
		t.Errorf("%q", got)
	}
}

func TestRelayAllocatesNothing(t *testing.T) {
	r, err := New(relayTo("127.0.0.1:1"), slog.New(slog.DiscardHandler))
	must(t, err)
	line := []byte("a:1|c|#x:y")
	r.targets[0].waiting = make([]byte, 0, 1<<20)
	if n := testing.AllocsPerRun(1000, func() { r.Relay(line) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"host:1": "", "udp://[::1]:1": "", "tcp://host:1": "",
		"host":          `Targets has "host"; must be udp://host:port or tcp://host:port`,
		":1":            `Targets has ":1"; must be udp://host:port or tcp://host:port`,
		"unix:///a":     `Targets has "unix:///a"; must be udp://host:port or tcp://host:port`,
		"":              `Targets has ""; must be udp://host:port or tcp://host:port`,
		"a:1,udp://a:1": `Targets has "udp://a:1" twice`,
	} {
		if err := relayTo(strings.Split(text, ",")...).Validate(); fmt.Sprint(err) != want && (err != nil || want != "") {
			t.Errorf("%q: %v", text, err)
		}
	}
	c := relayTo("a:1")
	c.QueueBytes = 1
	if c.Validate() == nil {
		t.Error("a queue of one byte is valid")
	}
}

// A server that accepts connections and reads nothing doesn't delay the end: lines have a second,
// whether they are being written by then or still gather.
func TestTheEndDoesNotWaitForADeafServer(t *testing.T) {
	for _, before := range []time.Duration{gatherTime, 0} {
		synctest.Test(t, func(t *testing.T) {
			r, err := New(relayTo("tcp://deaf:1"), slog.New(slog.DiscardHandler))
			must(t, err)
			client, server := net.Pipe()
			defer server.Close()
			r.targets[0].dial = func(context.Context, string, string) (net.Conn, error) { return client, nil }
			ctx, cancel := context.WithCancel(t.Context())
			var ended time.Time
			go func() { r.Run(ctx); ended = time.Now() }()
			r.Relay([]byte("requests:1|c"))
			time.Sleep(before)
			synctest.Wait()
			r.Relay([]byte("requests:2|c"))
			stopped := time.Now()
			cancel()
			time.Sleep(time.Hour)
			synctest.Wait()
			if took := ended.Sub(stopped); took != drainTime {
				t.Errorf("%v after a line, the end took %v, want %v", before, took, drainTime)
			}
		})
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
