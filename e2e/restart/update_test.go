package restart

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A node's agent is updated under load, as by a DaemonSet with maxSurge 1: the next one runs before the former one is
// told to end. Nothing is lost, and nothing counts twice, of a UDP client with one source port, whose flow moves
// late; of a TCP client that connects elsewhere when it is asked to; of Unix clients, which connect again when a
// write fails. While the server is away, the former agent waits for it.
func TestAgentIsUpdated(t *testing.T) {
	for name, away := range map[string]bool{"the server is there": false, "the server is away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.New(t, "--windows", "10s,1h")
			s.WithAgents()
			s.Start()
			folder, err := os.MkdirTemp("", "s") // a socket's path is short
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(folder) })
			former, next := updated(s, folder), updated(s, folder)
			former.Start()
			proxy := newProxy(t, former)
			udp := pushEveryKind(t, proxy.udp.LocalAddr().String())
			streams := map[string]*lineClient{"tcp": pushLines(t, "tcp", proxy.tcp.Addr().String()),
				"unixgram": pushLines(t, "unixgram", former.Unixgram), "unix": pushLines(t, "unix", former.Unix)}
			time.Sleep(2 * time.Second)
			if away {
				s.Kill()
			}
			next.Start()
			former.Terminate()
			server.Eventually(t, func() string {
				if former.Ready() {
					return "the former agent is still ready"
				}
				return ""
			})
			proxy.to.Store(next)
			time.Sleep(3 * time.Second)
			proxy.flows.Store(next)
			if away {
				time.Sleep(15 * time.Second)
				s.Start()
			}
			select {
			case <-former.Ended():
			case <-time.After(5 * time.Minute):
				t.Fatalf("the former agent does not end:\n%s", former.Said())
			}
			time.Sleep(time.Second)
			rounds := float64(udp.stop())
			want := map[string]float64{"jobs:total": rounds, "parts:total": rounds / 4, "took:count:1h": rounds, "open": rounds}
			for network, client := range streams {
				want[network+":total"] = float64(client.stop())
			}
			next.Stop()
			for metric, n := range want {
				if got := s.Sum(metric); got != n || n == 0 {
					t.Errorf("%s is %v, want %v", metric, got, n)
				}
			}
			s.Stop()
		})
	}
}

func updated(s *server.Server, folder string) *server.Agent {
	a := s.NewAgent("node-1")
	a.Streams(folder)
	a.Add("--shutdown-delay", "10s", "--shutdown-limit", "5m", "--delivery-timeout", "5m")
	return a
}

// proxy leads to the agent of a node, as kube-proxy does: connections stay with the agent that they were made to.
type proxy struct {
	t         *testing.T
	udp       net.PacketConn
	tcp       net.Listener
	to, flows atomic.Pointer[server.Agent] // of connections, and of UDP
}

func newProxy(t *testing.T, to *server.Agent) *proxy {
	t.Helper()
	p := &proxy{t: t}
	p.to.Store(to)
	p.flows.Store(to)
	var err error
	p.udp, err = net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	p.tcp, err = net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { p.udp.Close(); p.tcp.Close() })
	go p.forward()
	go p.accept()
	return p
}

// forward forwards datagrams from one source port to each agent.
func (p *proxy) forward() {
	to := map[*server.Agent]net.Conn{}
	for buffer := make([]byte, 64<<10); ; {
		n, _, err := p.udp.ReadFrom(buffer)
		if err != nil {
			break
		}
		agent := p.flows.Load()
		if to[agent] == nil {
			if to[agent], err = net.Dial("udp", agent.UDP); err != nil {
				p.t.Error(err)
				return
			}
		}
		if _, err := to[agent].Write(buffer[:n]); err != nil {
			p.t.Error(err)
		}
	}
	for _, conn := range to {
		conn.Close()
	}
}

func (p *proxy) accept() {
	for {
		from, err := p.tcp.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to.Load().TCP)
		if err != nil {
			p.t.Error(err)
			from.Close()
			continue
		}
		go carryHalf(from, to)
		go carryHalf(to, from)
	}
}

// carryHalf carries one direction, and its end.
func carryHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}

// lineClient pushes 200 lines a second to a counter that is named after the network.
type lineClient struct {
	end, done chan struct{}
	sent      int
}

func pushLines(t *testing.T, network, address string) *lineClient {
	c := &lineClient{end: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		each := time.NewTicker(5 * time.Millisecond)
		defer each.Stop()
		line := []byte(network + ":1|c|#namespace:e2e\n")
		var conn net.Conn
		var asked <-chan struct{} // to connect elsewhere
		for {
			select {
			case <-asked:
				conn.Close()
				conn, asked = nil, nil
			case <-c.end:
				conn.Close()
				return
			case <-each.C:
				for tries := 0; ; tries++ {
					if conn == nil {
						conn, asked = dialWatched(t, network, address)
					}
					if _, err := conn.Write(line); err == nil {
						break
					} else if network == "tcp" || tries > 10 { // nobody knows what has arrived
						t.Errorf("%s: after %d lines: %v", network, c.sent, err)
						return
					}
					conn.Close()
					conn = nil
				}
				c.sent++
			}
		}
	}()
	return c
}

// dialWatched connects. A TCP client watches for the end of what the other side writes.
func dialWatched(t *testing.T, network, address string) (net.Conn, <-chan struct{}) {
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Errorf("%s: %v", network, err)
		panic(err)
	}
	if network != "tcp" {
		return conn, nil
	}
	asked := make(chan struct{})
	go func() {
		_, _ = conn.Read(make([]byte, 1))
		close(asked)
	}()
	return conn, asked
}

func (c *lineClient) stop() int {
	close(c.end)
	<-c.done
	return c.sent
}
