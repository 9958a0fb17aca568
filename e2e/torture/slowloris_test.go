package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A slow port gets more slow connections than it allows for all addresses together.
type slowPort struct {
	name        string
	address     func(*server.Server) string
	begins      string // the beginning of what is never finished
	drips       string // what follows, a bit at a time
	connections int
}

var slowPorts = []slowPort{
	{"StatsD", func(s *server.Server) string { return s.TCP }, "slow", "x", 1100},
	{"push", func(s *server.Server) string { return s.HTTP }, "POST /v1/statsd HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 4200},
	{"API", func(s *server.Server) string { return s.API }, "\x16\x03\x01\x02\x00\x01", "\x00", 2100}, // a TLS handshake
	{"operations", func(s *server.Server) string { return s.Ops }, "GET /readyz HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 540},
}

// TestSlowLoris opens connections to every port from one address, each of which sends a few bytes
// a second and never ends. The server limits that address to its share. Clients of another address
// are served as ever.
func TestSlowLoris(t *testing.T) {
	s := server.New(t)
	s.Start()
	books := newLineBooks(t, s)
	books.send(1)
	s.PutSynced("e2e", "depth", 0) // the loop below may read it before it pushes it
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	defer slow.Wait()
	defer cancel()
	var open atomic.Int64
	connections := 0
	for _, port := range slowPorts {
		connections += port.connections
		for range port.connections {
			slow.Go(func() { port.hold(ctx, s, &open) })
		}
	}
	server.Within(t, func() string {
		if open.Load() < 1000 {
			return fmt.Sprintf("only %d slow connections are open", open.Load())
		}
		return ""
	})
	var slowest time.Duration
	pushed := 0
	for began := time.Now(); time.Since(began) < server.ShortOrLong(5*time.Second, 2*time.Minute); pushed++ {
		for name, use := range map[string]func() error{
			"push":       func() error { return push(s, http.MethodPut, "depth", int64(pushed)) },
			"API":        func() error { _, err := s.External("depth"); return err },
			"operations": func() error { _, err := s.Checks(); return err },
			"StatsD":     func() error { books.send(1); return nil },
		} {
			asked := time.Now()
			if err := use(); err != nil {
				t.Fatalf("the %s port while another address holds connections: %v", name, err)
			}
			slowest = max(slowest, time.Since(asked))
		}
	}
	figure(t, "%d slow connections to 4 ports, %d open at the end: %d uses of each port from another address, all served, the slowest in %d ms",
		connections, open.Load(), pushed, slowest.Milliseconds())
}

// hold keeps a connection open until it ends or is closed, and then opens another one.
func (p slowPort) hold(ctx context.Context, s *server.Server, open *atomic.Int64) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: 10 * time.Second}
	for ctx.Err() == nil {
		if conn, err := dialer.DialContext(ctx, "tcp", p.address(s)); err == nil {
			open.Add(1)
			p.drip(ctx, conn)
			_ = conn.Close()
			open.Add(-1)
		}
		wait(ctx, time.Second+rand.N(4*time.Second)) // a system has few ports to come back from
	}
}

func (p slowPort) drip(ctx context.Context, conn net.Conn) {
	_, err := conn.Write([]byte(p.begins))
	for err == nil && ctx.Err() == nil {
		wait(ctx, 500*time.Millisecond)
		_, err = conn.Write([]byte(p.drips))
	}
}

func wait(ctx context.Context, during time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(during):
	}
}
