package relay

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// running runs a Relay for the test's time. The returned function stops it and waits.
func running(t *testing.T, c Config) (r *Relay, stop func()) {
	t.Helper()
	r, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

func tcpServer(t *testing.T, address string) net.Listener {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		server, err := net.Listen("tcp", address)
		if err == nil {
			t.Cleanup(func() { server.Close() })
			return server
		}
		if time.Now().After(deadline) { // another process may have a port meanwhile
			t.Fatal(err)
		}
	}
}

// packet reads one datagram.
func packet(t *testing.T, server net.PacketConn) string {
	t.Helper()
	buffer := make([]byte, 64<<10)
	server.SetReadDeadline(time.Now().Add(time.Minute))
	n, _, err := server.ReadFrom(buffer)
	if err != nil {
		t.Fatal(err)
	}
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
	udp, tcp := udpServer(t), tcpServer(t, "127.0.0.1:0")
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
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := make([]byte, len(want)+1)
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	for n := 0; n < len(got); {
		more, err := conn.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
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
	unread := tcpServer(t, "127.0.0.1:0") // accepts in the kernel, and reads nothing
	gone := tcpServer(t, "127.0.0.1:0")
	gone.Close()
	alive := udpServer(t)
	c := relayTo("tcp://"+gone.Addr().String(), "tcp://"+unread.Addr().String(), alive.LocalAddr().String())
	c.QueueBytes = minQueue
	r, _ := running(t, c)
	piece := bytes.Repeat([]byte("a:1|c\n"), 100)
	began := time.Now()
	const pieces = 50_000 // 30 MB
	for range pieces {
		r.Relay(piece)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if got := packet(t, alive); !strings.HasPrefix(got, "a:1|c\n") {
		t.Errorf("%q", got)
	}
	for _, target := range r.targets[:2] {
		if target.dropped.Load() == 0 {
			t.Errorf("%s dropped nothing", target.name)
		}
	}
	if size := r.targets[0].size(); size > minQueue {
		t.Errorf("%d bytes wait", size)
	}
}

// A server that comes back gets the lines that waited, and whole lines only.
func TestATargetThatRestarts(t *testing.T) {
	first := tcpServer(t, "127.0.0.1:0")
	address := first.Addr().String()
	r, stop := running(t, relayTo("tcp://"+address))
	r.Relay([]byte("before:1|c"))
	conn, err := first.Accept()
	if err != nil {
		t.Fatal(err)
	}
	target := r.targets[0]
	eventually(t, "the first line is sent", func() bool { return target.sent.Load() == 1 })
	conn.Close()
	first.Close()
	for i := range 20 {
		r.Relay(fmt.Appendf(nil, "during%d:1|c", i))
		time.Sleep(10 * time.Millisecond)
	}
	second := tcpServer(t, address)
	var got bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		conn, err := second.Accept()
		if err == nil {
			got.ReadFrom(conn)
		}
	}()
	r.Relay([]byte("after:1|c"))
	eventually(t, "all lines are sent or lost", func() bool { return target.sent.Load()+target.failed.Load()+target.dropped.Load() == 22 })
	stop()
	<-read
	lines := strings.Split(strings.TrimSuffix(got.String(), "\n"), "\n")
	if lines[len(lines)-1] != "after:1|c" || len(lines) < 10 {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, ":1|c") || strings.Count(line, ":") != 1 {
			t.Errorf("%q is not a whole line", line)
		}
	}
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
	if err != nil {
		t.Fatal(err)
	}
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

// A server that accepts connections and reads nothing doesn't delay the end: lines have a second.
func TestTheEndDoesNotWaitForADeafServer(t *testing.T) {
	for tries := 1; ; tries++ {
		took := endBesideADeafServer(t)
		if took <= drainTime+time.Second {
			return
		}
		if tries == 10 { // a loaded machine delays one or another
			t.Fatalf("the end took %v", took)
		}
	}
}

func endBesideADeafServer(t *testing.T) (took time.Duration) {
	deaf := tcpServer(t, "127.0.0.1:0")
	r, stop := running(t, relayTo("tcp://"+deaf.Addr().String()))
	lines := bytes.Repeat([]byte("requests:1|c\n"), 5000)
	for range 400 { // more than the sockets' buffers hold
		r.Relay(lines)
		time.Sleep(time.Millisecond)
	}
	eventually(t, "the queue is full", func() bool { return r.targets[0].dropped.Load() > 0 })
	began := time.Now()
	stop()
	return time.Since(began)
}
