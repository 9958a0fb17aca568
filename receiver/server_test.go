package receiver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
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

// The sender learns by the sum that its line was applied.
func TestACrowdKeepsNoneOut(t *testing.T) {
	const most = 128
	for name, says := range map[string]string{"silent": "", "half a line": "a:1|"} {
		t.Run(name, func(t *testing.T) {
			address := crowd.Address(t)
			var f *fixture
			var n atomic.Int64
			crowd.KeepsNoneOut(t, address, most, says, func() (stop func()) {
				config := testConfig(Listener{Network: "tcp", Address: address})
				config.MaxConnections, config.MaxConnectionsPerAddress = most, most
				f = serve(t, config)
				return f.stop
			}, func(conn net.Conn) error {
				name := fmt.Sprint("m", n.Add(1))
				if _, err := io.WriteString(conn, name+":1|c\n"); err != nil {
					return err
				}
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn) // until the server has read all, or has closed it
				for range 100 {
					if f.recorder.sum(name) == 1 {
						return nil
					}
					time.Sleep(time.Millisecond)
				}
				return fmt.Errorf("%s was not applied", name)
			})
		})
	}
}

// A server that stops leaves a socket that another process has put in the place of its own.
func TestAStopRemovesOnlyItsOwnSocket(t *testing.T) {
	for _, listener := range []Listener{unixStream(t), {Network: "unixgram", Address: socketPath(t)}} {
		for _, replaced := range []bool{true, false} {
			f := serve(t, testConfig(listener))
			if replaced {
				must(t, os.Remove(listener.Address))
				other, err := net.Listen("unix", listener.Address)
				must(t, err)
				defer other.Close()
			}
			f.stop()
			if _, err := os.Lstat(listener.Address); (err == nil) != replaced {
				t.Errorf("%s, replaced %v: %v", listener.Network, replaced, err)
			}
			_ = os.Remove(listener.Address)
		}
	}
}

// Another process may replace the socket before its mode is set: what a link leads to keeps its mode.
func TestTheModeOfALinkedFileIsKept(t *testing.T) {
	secret, link := filepath.Join(t.TempDir(), "secret"), socketPath(t)
	must(t, os.WriteFile(secret, nil, 0o600))
	must(t, os.Symlink(secret, link))
	if file, err := claim(link); err == nil || file.made != nil {
		t.Errorf("%+v, %v; want an error", file, err)
	}
	if chmodSocket(link) == nil {
		t.Error("the mode of a link was set")
	}
	if stat, err := os.Stat(secret); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat, err)
	}
}

// relayed is a Relay that keeps what it gets.
type relayed struct {
	mu  sync.Mutex
	got []string
}

func (r *relayed) Relay(lines []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(lines) > 0 {
		r.got = append(r.got, string(lines))
	}
}

func (r *relayed) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, "; ")
}

// Lines are relayed as they came, whether they are valid or not, and whole.
func TestLinesAreRelayed(t *testing.T) {
	for name, c := range map[string]struct {
		listener Listener
		want     string
	}{
		"udp": {udp(1), "a:1|c\nbad\r\n; b:2|c; c:3|ms"},
		"tcp": {tcp, "a:1|c\nbad\r\n; b:2|cc:3|ms"}, // one stream
	} {
		t.Run(name, func(t *testing.T) {
			r := &relayed{}
			f := bindParts(t, testConfig(c.listener), func(p *Parts) { p.Relay = r }).run()
			conn := f.dial(0)
			f.send(conn, "a:1|c\nbad\r\n")
			f.eventually("the first packet", func() bool { return f.received() == 2 })
			f.send(conn, "b:2|c")
			if name == "udp" {
				f.eventually("the second packet", func() bool { return f.received() == 3 })
			}
			f.send(conn, "c:3|ms")
			conn.Close()
			f.eventually("the last packet", func() bool { return r.all() == c.want })
		})
	}
}

// A socket takes the place of one on which another process listens: that keeps its clients, and removes nothing when
// it ends. Where something else has the path, it is an error.
func TestASocketTakesOver(t *testing.T) {
	for _, network := range []string{"unixgram", "unix"} {
		listener := Listener{Network: network, Address: socketPath(t), TakesOver: true}
		former := serve(t, testConfig(listener))
		old := former.dial(0)
		next := serve(t, testConfig(listener))
		former.send(old, "jobs:1|c\n")
		next.send(next.dial(0), "jobs:2|c\n")
		former.eventually("the line of the former client", func() bool { return former.recorder.sum("jobs") == 1 })
		next.eventually("the line of the next one", func() bool { return next.recorder.sum("jobs") == 2 })
		former.stop()
		if _, err := old.Write([]byte("jobs:1|c\n")); err == nil {
			t.Errorf("%s: a client of a socket that has ended hears of no error", network)
		}
		next.send(next.dial(0), "jobs:2|c\n")
		next.eventually("a line after the former's end", func() bool { return next.recorder.sum("jobs") == 4 })
		next.stop()
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(listener.Address), "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %q, %v", network, left, err)
		}
		must(t, os.WriteFile(listener.Address, []byte("file"), 0o600))
		if _, err := New(testConfig(listener), Parts{Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s: a socket takes the place of a file", network)
		}
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
