package keda

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// proxy forwards connections to an address, until they are cut.
type proxy struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	cut  bool
	open map[*net.TCPConn]bool
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", server.FreeAddress(t, "tcp"))
	must(t, err)
	p := &proxy{listener: listener, to: to, open: map[*net.TCPConn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.forward(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.setCut(true)
		running.Wait()
	})
	return p
}

func (p *proxy) forward(from *net.TCPConn) {
	conn, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = from.Close()
		return
	}
	to := conn.(*net.TCPConn)
	if !p.add(from, to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); reset(to) })
	both.Go(func() { _, _ = io.Copy(from, to); reset(from) })
	both.Wait()
}

func (p *proxy) add(conns ...*net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.cut {
			reset(c)
		}
		p.open[c] = true
	}
	return !p.cut
}

// setCut resets all connections and those to come, or lets new ones through again.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.open {
		reset(c)
	}
	clear(p.open)
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// A cut of the network during an open stream is over when the network is back: the operator opens the
// stream again, after waits that double.
func TestConnectionIsCut(t *testing.T) {
	t.Parallel()
	s := prepare(t, "cut")
	between := startProxy(t, s.address)
	s.address = between.listener.Addr().String()
	s.scaleByPush(t, 300, 5)
	between.setCut(true)
	time.Sleep(5 * time.Second)
	s.push(t, jobs(35))
	s.steady(t, 0, 2*time.Second)
	began := time.Now()
	took := s.woken(t, pushed, func() { between.setCut(false) })
	t.Logf("a replica %s after the network was back, the stream after %s", took, time.Since(began))
	s.awaitReplicas(t, 4)
}
