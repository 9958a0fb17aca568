package receiver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

var tcp = Listener{Network: "tcp", Address: "127.0.0.1:0"}

func unixStream(t *testing.T) Listener {
	return Listener{Network: "unix", Address: socketPath(t), Dialect: statsd.DogStatsD}
}

// frame puts a packet behind its length.
func frame(packet string) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(packet)))) + packet
}

// closedByServer reports whether the other side closes the connection.
func closedByServer(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := conn.Read(make([]byte, 1))
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET)
}

// A connection is of one pod. What comes on it once another pod has the address is not that one's, nor is the line
// that is half there.
func TestConnectionsDoNotChangeHands(t *testing.T) {
	const address = "127.0.0.5"
	for name, after := range map[string]func(net.Conn) error{
		"lines": func(c net.Conn) error { _, err := io.WriteString(c, "6|c\nkept:666|c\n"); return err },
		"end":   func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			d := &directory{}
			d.enter(address, "former", 1)
			f := serveTo(t, d, tcp)
			conn := f.dialFrom(0, address)
			f.send(conn, "own:1|c\n")
			f.eventually("the first line", func() bool { return f.recorder.sum("own") == 1 })
			d.enter(address, "former", 2) // it has changed, but is the same
			f.send(conn, "own:1|c\nhalf:66")
			f.eventually("the second line", func() bool { return f.recorder.sum("own") == 2 })
			d.enter(address, "next", 3)
			must(t, after(conn))
			if !closedByServer(conn) {
				t.Error("the connection stays open")
			}
			f.send(f.dialFrom(0, address), "own:1|c\n")
			f.eventually("the next pod's line", func() bool { return f.recorder.sum("own") == 3 })
			if got := f.recorder.sentBy("own"); got != address+" next" {
				t.Errorf("sent by %q", got)
			}
			if half, kept := f.recorder.sum("half"), f.recorder.sum("kept"); half != 0 || kept != 0 {
				t.Errorf("the next pod has %d and %d of the former one", half, kept)
			}
		})
	}
}

// A connection that was opened before the pod of its address began, while nobody had it, is not that pod's.
func TestConnectionsOfFormerHolders(t *testing.T) {
	const address = "127.0.0.6"
	d := &directory{}
	f := serveTo(t, d, tcp)
	for name, c := range map[string]struct {
		created time.Duration // after the connection
		want    int64
	}{"later": {time.Hour, 0}, "before": {-time.Hour, 1}} {
		conn := f.dialFrom(0, address)
		d.enterCreated(address, "next", 1, time.Now().Add(c.created))
		f.send(conn, name+":1|c\n")
		if c.want == 0 && !closedByServer(conn) {
			t.Errorf("%s: the connection stays open", name)
		}
		f.eventually(name, func() bool { return f.recorder.sum(name) == c.want })
	}
}

func TestTCPPartialLines(t *testing.T) {
	f := serve(t, testConfig(tcp))
	conn := f.dial(0)
	f.send(conn, "a:1|c\r\na:2|")
	f.eventually("the first", func() bool { return f.recorder.sum("a") == 1 })
	f.send(conn, "c")
	f.send(conn, "\nfoo:|g\na:4|c\na")
	f.eventually("the next two", func() bool { return f.recorder.sum("a") == 7 })
	f.send(conn, ":8|c") // the last line has no newline
	_ = conn.Close()
	f.eventually("the last", func() bool { return f.received() == 5 })
	if f.recorder.sum("a") != 15 || f.rejected(metric.Malformed) != 1 {
		t.Errorf("sum %d, %d malformed", f.recorder.sum("a"), f.rejected(metric.Malformed))
	}
}

func TestTCPOverlongLine(t *testing.T) {
	f := serve(t, testConfig(tcp))
	conn := f.dial(0)
	f.send(conn, "a:1|c\nb:1|c|#"+strings.Repeat("x", 100_000))
	f.eventually("refused before its end", func() bool { return f.rejected(metric.TooLong) == 1 })
	f.send(conn, strings.Repeat("x", 100_000)+"\na:2|c\n")
	f.eventually("the line behind it", func() bool { return f.received() == 3 })
	if f.recorder.sum("a") != 3 {
		t.Errorf("sum %d, want 3", f.recorder.sum("a"))
	}
}

func TestTCPConnectionCap(t *testing.T) {
	config := testConfig(tcp)
	config.MaxConnections = 2
	f := serve(t, config)
	first, second := f.dial(0), f.dial(0)
	f.send(first, "a:1|c\n")
	f.send(second, "a:1|c\n")
	f.eventually("both", func() bool { return f.recorder.sum("a") == 2 && f.recorder.allParked() }) // and noted as busy
	if !closedByServer(f.dial(0)) {
		t.Error("the third connection stays open")
	}
	if want := "connection limit of 2 reached; every open connection is in use"; !strings.Contains(f.log.String(), want) {
		t.Errorf("log %s, want %s", f.log, want)
	}
	registry := prometheus.NewRegistry()
	must(t, f.server.Register(registry))
	checkMetric(t, registry, "sluice_connections", 2)
	checkMetric(t, registry, "sluice_connections_refused_total", 1)
	_ = first.Close()
	f.eventually("room again, and a worker for it", func() bool {
		s := f.server.streams[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.limiter.Len() == 1 && len(s.idle) == 1
	})
	f.send(f.dial(0), "a:1|c\n")
	f.eventually("the fourth", func() bool { return f.recorder.sum("a") == 3 })
	if opened := f.total(func(*ledger.Account) uint64 { return 1 }); opened != 2 {
		t.Errorf("%d accounts for three connections of which two were open at once", opened)
	}
}

// One address cannot take all places: another one still comes in.
func TestTCPConnectionCapOfOneAddress(t *testing.T) {
	config := testConfig(tcp)
	config.MaxConnections, config.MaxConnectionsPerAddress = 10, 2
	f := serve(t, config)
	first, second := f.dial(0), f.dial(0)
	f.send(first, "b:1|c\n")
	f.send(second, "b:1|c\n")
	f.eventually("both", func() bool { return f.recorder.sum("b") == 2 && f.recorder.allParked() })
	if !closedByServer(f.dial(0)) {
		t.Error("the third connection of an address stays open")
	}
	if want := "connection limit of 2 reached for 127.0.0.1/32; every open connection is in use"; !strings.Contains(f.log.String(), want) {
		t.Errorf("log %s, want %s", f.log, want)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}}
	conn, err := other.Dial("tcp", f.server.Addrs()[0].String())
	must(t, err)
	defer conn.Close()
	f.send(conn, "a:1|c\n")
	f.eventually("another address", func() bool { return f.recorder.sum("a") == 1 })
	_ = first.Close()
	f.eventually("room again", func() bool { return f.server.streams[0].limiter.Len() == 2 })
	f.send(f.dial(0), "a:1|c\n")
	f.eventually("the first address again", func() bool { return f.recorder.sum("a") == 2 })
}

func checkMetric(t *testing.T, registry *prometheus.Registry, name string, want float64) {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		if m := family.GetMetric()[0]; family.GetName() == name {
			if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			return
		}
	}
	t.Errorf("no %s", name)
}

// timed is a connection that tells the deadlines it is given.
type timed struct {
	*net.TCPConn
	until atomic.Int64
}

func (c *timed) SetReadDeadline(at time.Time) error {
	c.until.Store(at.UnixNano())
	return nil
}

// A connection is closed once it has sent nothing for the idle timeout.
func TestTCPIdleTimeout(t *testing.T) {
	config := testConfig(tcp)
	config.IdleTimeout = time.Minute
	f := bind(t, config)
	defer f.server.Close()
	s := f.server.streams[0]
	client := f.dial(0)
	accepted, err := s.listener.(*acceptor).Listener.Accept()
	must(t, err)
	conn := &timed{TCPConn: accepted.(*net.TCPConn)}
	s.admit(conn)
	for i, text := range []string{"a:1|c\n", "a:2|c\nb:1|c"} {
		before := time.Now().Add(config.IdleTimeout)
		f.send(client, text)
		f.eventually("the data", func() bool { return f.recorder.sum("a") == int64(1+2*i) })
		f.eventually("a deadline that follows it", func() bool { return !time.Unix(0, conn.until.Load()).Before(before) })
	}
	_ = conn.TCPConn.SetReadDeadline(time.Unix(1, 0))
	s.serving.Wait()
	if !closedByServer(client) || s.limiter.Len() != 0 {
		t.Error("an idle connection stays open")
	}
	if f.recorder.sum("a") != 3 || f.recorder.sum("b") != 0 || f.rejected(metric.Malformed) != 1 {
		t.Errorf("sums %v, %d malformed; want the unfinished line refused", f.recorder.sums, f.rejected(metric.Malformed))
	}
}

func TestUnixStream(t *testing.T) {
	listener := unixStream(t)
	f := serve(t, testConfig(listener))
	if mode, err := os.Stat(listener.Address); err != nil || mode.Mode().Perm() != socketMode {
		t.Errorf("file %v, %v; want mode %o", mode, err, socketMode)
	}
	conn := f.dial(0)
	f.send(conn, frame("a:1|c\nb:-1|g")+frame("")+frame("a:2|c\n"))
	f.eventually("three packets in one write", func() bool { return f.recorder.sum("a") == 3 && f.recorder.sum("b") == -1 })
	for _, b := range []byte(frame("a:4|c")) {
		f.send(conn, string(b))
	}
	f.eventually("one in many writes", func() bool { return f.recorder.sum("a") == 7 })
	cut := frame("a:8|c\na:16|c")
	f.send(conn, cut[:len(cut)-1])
	_ = conn.Close()
	f.eventually("the whole line of one that was cut off", func() bool { return f.recorder.sum("a") == 15 })
	f.eventually("the rest refused", func() bool { return f.rejected(metric.Malformed) == 1 })
}

func TestUnixStreamBadLength(t *testing.T) {
	f := serve(t, testConfig(unixStream(t)))
	conn := f.dial(0)
	f.send(conn, frame("a:1|c")+"a:1|c\n")
	if !closedByServer(conn) {
		t.Error("the connection stays open")
	}
	if f.recorder.sum("a") != 1 || f.rejected(metric.TooLong) != 1 {
		t.Errorf("sums %v, %d too long", f.recorder.sums, f.rejected(metric.TooLong))
	}
	if want := "announced packet length is 2083600993 bytes; must be at most 65536"; !strings.Contains(f.log.String(), want) {
		t.Errorf("log %s, want %s", f.log, want)
	}
}

// Data that arrived before the stop is applied, even on connections that were not accepted yet.
func TestStopDrainsStreams(t *testing.T) {
	f := bind(t, testConfig(tcp, unixStream(t)))
	tcpConn, unixConn := f.dial(0), f.dial(1)
	for range 100 {
		f.send(tcpConn, "a:1|c\n")
		f.send(unixConn, frame("b:1|c"))
	}
	f.send(tcpConn, "c:1|c") // unfinished: perhaps more of it would have come
	f.awaitDelivered(tcpConn)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.cancel = cancel
	for _, s := range f.server.streams {
		s.listener = &lateListener{streamListener: s.listener, left: 1}
		s.shut()
	}
	f.start(ctx)
	f.stop()
	if f.recorder.sum("a") != 100 || f.recorder.sum("b") != 100 || f.recorder.sum("c") != 0 {
		t.Errorf("sums %v, want a and b 100", f.recorder.sums)
	}
	if f.rejected(metric.Malformed) != 1 {
		t.Error("the unfinished line was not accounted for")
	}
}

// lateListener is a listener whose deadline comes once a number of connections are accepted.
type lateListener struct {
	streamListener
	left     int
	deadline time.Time
}

func (l *lateListener) SetDeadline(at time.Time) error { l.deadline = at; return nil }

func (l *lateListener) await(take func(uintptr) bool) error {
	if l.left == 0 {
		return os.ErrDeadlineExceeded
	}
	l.left--
	return l.streamListener.await(take)
}

// A stopping listener accepts what waits in the kernel, and no longer than acceptGrace.
func TestAcceptGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bind(t, testConfig(tcp))
		defer f.server.Close()
		late := &lateListener{streamListener: f.server.streams[0].listener}
		f.server.streams[0].listener = late
		f.server.streams[0].shut()
		if got := time.Until(late.deadline); got != acceptGrace {
			t.Errorf("accepts for %v, want %v", got, acceptGrace)
		}
	})
}

// A stop waits neither for quiet peers nor, beyond the drain timeout, for busy ones.
func TestStopClosesOpenStreams(t *testing.T) {
	config := testConfig(tcp, unixStream(t))
	f := serve(t, config)
	quiet := []net.Conn{f.dial(0), f.dial(1)}
	f.send(quiet[0], "a:1|c\n")
	f.send(quiet[1], frame("b:1|c"))
	f.eventually("both", func() bool { return f.recorder.sum("a") == 1 && f.recorder.sum("b") == 1 })
	f.stop()
	for _, conn := range quiet {
		if !closedByServer(conn) {
			t.Error("a connection is still open")
		}
	}
}

// A connection that is accepted while stopping is read up to the data that had arrived, and not
// waited for.
func TestAcceptedWhileStopping(t *testing.T) {
	f := bind(t, testConfig(tcp))
	defer f.server.Close()
	conn := f.dial(0)
	f.send(conn, "a:1|c\n")
	f.awaitDelivered(conn)
	s := f.server.streams[0]
	s.listener = &lateListener{streamListener: s.listener, left: 1}
	s.shut()
	s.accept(context.Background())
	s.serving.Wait()
	if f.recorder.sum("a") != 1 {
		t.Errorf("sums %v", f.recorder.sums)
	}
}

// A client may reset its connection before it is accepted: then the kernel no longer names the peer. What the
// client sent counts, under its address, and the next connection is served.
func TestResetBeforeAccepted(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			f := bind(t, testConfig(Listener{Network: "tcp", Address: address}))
			var conn net.Conn
			for _, says := range []string{"a:1|c\n", "GET / HTTP/1.1\r\n\r\n"} {
				conn = f.dial(0)
				f.send(conn, says)
				f.awaitDelivered(conn)
				_ = conn.(*net.TCPConn).SetLinger(0) // Close resets
				_ = conn.Close()
			}
			f.run()
			f.send(f.dial(0), "b:1|c\n")
			f.eventually("all", func() bool {
				return f.recorder.sum("a") == 1 && f.recorder.sum("b") == 1 &&
					strings.Contains(f.log.String(), "peer="+conn.LocalAddr().String())
			})
		})
	}
}

// A stop does not wait for a peer that goes on writing.
func TestStopGivesUpOnBusyStreams(t *testing.T) {
	config := testConfig(tcp)
	config.DrainTimeout = 50 * time.Millisecond
	f := serve(t, config)
	conn := f.dial(0)
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			if _, err := conn.Write([]byte("a:1|c\n")); err != nil {
				return
			}
		}
	})
	f.eventually("some", func() bool { return f.recorder.sum("a") > 100 })
	f.stop()
	_ = conn.Close()
	writing.Wait()
}

// Idle and dripping connections of an address yield to new senders, of that address and of others.
// A connection that brought a sample a moment ago keeps its place.
func TestIdleConnectionsYield(t *testing.T) {
	line, packet := func(s string) string { return s + "\n" }, frame
	for name, c := range map[string]struct {
		listener func(*testing.T) Listener
		each     int
		says     string // what each of the crowd sends
		line     func(string) string
	}{
		"tcp, idle":               {func(*testing.T) Listener { return tcp }, 4, "", line},
		"tcp, dripping":           {func(*testing.T) Listener { return tcp }, 4, "drip", line},
		"tcp, refused lines":      {func(*testing.T) Listener { return tcp }, 4, "foo:|g\n", line},
		"tcp, all together":       {func(*testing.T) Listener { return tcp }, 100, "", line},
		"unix, all together":      {unixStream, 100, "", packet},
		"unix, half a frame each": {unixStream, 100, "\x06\x00", packet},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(c.listener(t))
			config.MaxConnections, config.MaxConnectionsPerAddress = 8, c.each
			room := min(config.MaxConnections, c.each)
			f := serve(t, config)
			sender := f.dial(0)
			f.send(sender, c.line("a:1|c"))
			f.eventually("a sender", func() bool { return f.recorder.sum("a") == 1 && f.recorder.allParked() })
			var crowd []net.Conn
			for range room + 8 {
				conn := f.dial(0)
				f.send(conn, c.says)
				crowd = append(crowd, conn)
			}
			f.send(f.dial(0), c.line("b:1|c"))
			f.eventually("a new sender", func() bool { return f.recorder.sum("b") == 1 })
			f.send(sender, c.line("a:1|c"))
			f.eventually("the first sender again", func() bool { return f.recorder.sum("a") == 2 })
			if !closedByServer(crowd[0]) {
				t.Error("the connection that was idle longest stays open")
			}
			f.eventually("as many as may be", func() bool { return f.server.streams[0].limiter.Len() <= room })
			for _, want := range []string{"closed for a new one", "idle"} {
				if !strings.Contains(f.log.String(), want) {
					t.Errorf("the log does not say %q: %s", want, f.log)
				}
			}
			registry := prometheus.NewRegistry()
			must(t, f.server.Register(registry))
			checkMetric(t, registry, "sluice_connections_yielded_total", float64(room+8+2-room))
			checkMetric(t, registry, "sluice_connections_refused_total", 0)
		})
	}
}

// A connection may end by itself while it yields: its goroutine holds the descriptor, which the one that
// closes it waits for.
func TestAConnectionThatYieldsEndsByItself(t *testing.T) {
	config := testConfig(tcp)
	config.MaxConnections = 1
	f := serve(t, config)
	first := f.dial(0)
	all := f.server.streams[0].all
	var yields *connection
	f.eventually("a connection", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, s := range all.sources {
			if c, is := s.(*connection); is {
				yields = c
			}
		}
		return yields != nil
	})
	runs := func(method string) func() bool {
		return func() bool {
			var stacks strings.Builder // of all goroutines: those of tests before may be many
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			return strings.Contains(stacks.String(), method)
		}
	}
	yields.take()
	_ = first.Close()
	f.eventually("the end of the stream is read", runs("receiver.(*connection).receive+"))
	second := f.dial(0)
	f.eventually("the first connection yields", runs("connlimit.(*Member).abort+"))
	yields.give()
	f.send(second, "b:1|c\n")
	f.eventually("the second connection is served", func() bool { return f.recorder.sum("b") == 1 })
}

const hidden = "s3cr3t"

// A client of another protocol hears at once that the port is another. It costs one refusal, and none
// of its text is kept.
func TestClientsOfOtherProtocols(t *testing.T) {
	request := "POST /v1/samples HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + hidden + "\r\nX: x:1|c\r\n\r\nb:1|c\n"
	for name, c := range map[string]struct{ says, answer string }{
		"HTTP":                {request, "HTTP push has the address 10.0.0.1:9091"},
		"HTTP, a long line":   {"GET /?" + hidden + strings.Repeat("x", 4000) + " HTTP/1.1\r\n\r\n", "HTTP push has the address"},
		"HTTP, other methods": {"LIST /v1/keys HTTP/1.1\r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP, lower case":    {"get / HTTP/1.0\r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP, spaces":        {"GET  /a b HTTP/1.1 \r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP, an empty line": {"\r\nGET / HTTP/1.1\r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP/2":              {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, "HTTP push has the address"},
		"TLS":                 {"\x16\x03\x01\x02\x00" + hidden, ""},
		"PROXY, version 1":    {"PROXY TCP4 10.0.0.2 10.0.0.3 4321 8125\r\n" + hidden + ":1|c\n", ""},
		"PROXY, unknown":      {"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n" + hidden + ":1|c\n", ""},
		"PROXY, version 2":    {"\r\n\r\n\x00\r\nQUIT\n" + hidden, ""},
		"Redis":               {"*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\n" + hidden + "\r\n", ""},
		"MQTT":                {"\x10\x1a\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01a\x00\x04user\x00\x06" + hidden, ""},
		"LDAP":                {"0\x24\x02\x01\x01\x60\x1f\x02\x01\x03\x04\x04cn=a\x80\x06" + hidden + "\n", ""},
		"LDAP, long lengths":  {"0\x84\x00\x00\x00\x24\x02\x01\x01\x60\x1f\x02\x01\x03\x04\x04cn=a\x80\x06" + hidden + "\n", ""},
		"PostgreSQL":          {"\x00\x00\x00\x20\x00\x03\x00\x00user\x00" + hidden + "\x00\x00\n", ""},
		"AMQP":                {"AMQP\x00\x00\x09\x01" + hidden + "\n", ""},
		"HTTP without an end": {"GET /?" + hidden + " HTTP/1.1", ""},
	} {
		for _, step := range []int{len(c.says), 1} {
			t.Run(name, func(t *testing.T) {
				config := testConfig(tcp)
				config.HTTPAddress = "10.0.0.1:9091"
				kept := record.NewRejections(nil)
				f := bindParts(t, config, func(p *Parts) { p.Rejections = kept }).run()
				conn := f.dial(0)
				for i := 0; i < len(c.says); i += step {
					if _, err := io.WriteString(conn, c.says[i:min(i+step, len(c.says))]); err != nil {
						break // it was answered before the end
					}
				}
				_ = conn.(*net.TCPConn).CloseWrite()
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				var answer string
				if c.answer != "" {
					got, err := http.ReadResponse(bufio.NewReader(conn), nil)
					must(t, err)
					body, _ := io.ReadAll(got.Body)
					if answer = string(body); got.StatusCode != http.StatusBadRequest {
						t.Error(got.Status)
					}
				}
				if !closedByServer(conn) || !strings.Contains(answer, c.answer) {
					t.Errorf("answer %q, want %q and the end", answer, c.answer)
				}
				f.stop()
				if f.received() != 1 || f.rejected(metric.Malformed) != 1 {
					t.Errorf("%d received, %d malformed; want one refusal", f.received(), f.rejected(metric.Malformed))
				}
				all := kept.All()
				if len(all) != 1 || all[0].Example != "" || strings.Contains(all[0].Message+all[0].Metric+f.log.String(), hidden) {
					t.Errorf("kept: %+v\nlog: %s", all, f.log)
				}
			})
		}
	}
}

// The first bytes of a stream tell its protocol as soon as they differ from a line's.
func TestProtocolsByTheirFirstBytes(t *testing.T) {
	for start, want := range map[string]foreign{
		"*": undecided, "*3": undecided, "*3\r": undecided, "*3\r\n": undecided, "*3\r\n$4": redisCommand,
		"*3\r\na:1|c\n": statsdLines, "*3\n": statsdLines, "*a:1|c": statsdLines, "*3:1|c": statsdLines,
		"0": undecided, "0\x0c": binaryBytes, "0\x24\x02": binaryBytes, "\x10": binaryBytes, "\x00": binaryBytes, "AMQP\x00": binaryBytes,
		"a": undecided, "a:": statsdLines, "a\n": statsdLines, "a:1|c\x00\n": statsdLines, "12345678": statsdLines, "12345678\x01": statsdLines,
		"\r\n": undecided, "\r\n0\x0c": binaryBytes, "\xc3\xa9:1": statsdLines, "a\t:1|c": statsdLines,
	} {
		if got := protocolOf([]byte(start), 100); got != want {
			t.Errorf("%q: %d, want %d", start, got, want)
		}
	}
}

// Metrics may have the names of requests, and lines may begin with an empty one.
func TestLinesThatLookForeign(t *testing.T) {
	f := serve(t, testConfig(tcp))
	for i, line := range []string{"GET /orders:1|c\n", "PROXY TCP:1|c\n", "\r\n\r\na:1|c\n", "P:1|c\n", "GET", "PUT /x HTTP/1.1:1|c\n", "jobs waiting:1|c\n", "jobs " + strings.Repeat("x", 200) + ":1|c\n", "\nQUERY time:1|c\n", strings.Repeat("\r\n", 8190) + "GET :1|c\n",
		"*3:1|c\r\n", "*:1|c\n", "a:1|c|#\x01:x\n", "names of\x01:1|c\n", "\xc3\xa9:1|c\n"} {
		conn := f.dial(0)
		f.send(conn, line)
		_ = conn.(*net.TCPConn).CloseWrite()
		if f.eventually("the line", func() bool { return f.received() == uint64(i+1) }); f.rejected(metric.Malformed) > 1 {
			t.Errorf("%q is rejected", line)
		}
	}
}

// Of the buffers of connections that have ended, few stay.
func TestBuffersOfClosedConnections(t *testing.T) {
	f := serve(t, testConfig(unixStream(t)))
	var open []net.Conn
	for range 2 * keptFramers {
		conn := f.dial(0)
		f.send(conn, "\xff\xff\x00\x00half a packet")
		open = append(open, conn)
	}
	s := f.server.streams[0]
	f.eventually("all connections are accepted", func() bool { return s.limiter.Len() == len(open) })
	for _, conn := range open {
		must(t, conn.Close())
	}
	f.eventually("all connections end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.idle) == len(open)
	})
	kept := 0
	s.mu.Lock()
	for _, w := range s.idle {
		if w.framer != nil {
			kept++
		}
	}
	s.mu.Unlock()
	if kept != keptFramers {
		t.Errorf("%d framers of %d connections are kept, want %d", kept, len(open), keptFramers)
	}
	again := f.dial(0)
	f.send(again, frame("after:1|c"))
	f.eventually("a sample of a connection after them", func() bool { return f.recorder.sum("after") == 1 })
}
