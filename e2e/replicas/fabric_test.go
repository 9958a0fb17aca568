package replicas

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// fabric gives each replica a NATS server of its own. Bridges carry every message from one server
// to each other, with faults: a replica's way to the others is as bad as the test wants it, and its
// own client notices nothing.
type fabric struct {
	t       *testing.T
	faults  atomic.Pointer[faults]
	cut     atomic.Bool
	conns   []*nats.Conn
	waiting sync.WaitGroup
	random  *rand.Rand
	mu      sync.Mutex // guards random
}

// faults are the shares of the messages that are dropped, doubled and delayed. A delayed message
// comes after later ones.
type faults struct {
	drop, double, delay float64
	longest             time.Duration
}

// newFabric prepares replicas that use servers of NATS which the fabric connects.
func newFabric(t *testing.T, n int) (mesh, *fabric) {
	t.Helper()
	f := &fabric{t: t, random: rand.New(rand.NewPCG(1, 2))}
	f.faults.Store(&faults{})
	var m mesh
	for i := range n {
		url := f.serve()
		conn, err := nats.Connect(url, nats.Name("bridge"), nats.ReconnectWait(100*time.Millisecond), nats.MaxReconnects(-1))
		must(t, err)
		f.conns = append(f.conns, conn)
		m = append(m, server.New(t, "--nats-url", url, "--replica-name", fmt.Sprint("sluice-", i)))
	}
	for i, from := range f.conns {
		f.bridge(i, from)
	}
	t.Cleanup(func() {
		f.cut.Store(true)
		f.waiting.Wait()
		for _, conn := range f.conns {
			conn.Close()
		}
	})
	return m, f
}

// serve runs a NATS server on loopback and returns its URL.
func (f *fabric) serve() string {
	f.t.Helper()
	host, port, err := net.SplitHostPort(server.FreeAddress(f.t, "tcp"))
	must(f.t, err)
	number, _ := strconv.Atoi(port)
	s, err := natsserver.NewServer(&natsserver.Options{Host: host, Port: number, NoSigs: true, NoLog: true, MaxPayload: 8 << 20})
	must(f.t, err)
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		f.t.Fatal("the NATS server is not ready after 10 s")
	}
	f.t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.ClientURL()
}

// bridge passes the messages of one server on to all others. A message that it has passed on comes
// back by the other server's bridge; a header marks it.
func (f *fabric) bridge(own int, from *nats.Conn) {
	f.t.Helper()
	_, err := from.Subscribe("sluice.>", func(message *nats.Msg) {
		if message.Header.Get("Bridged") != "" {
			return
		}
		for i, to := range f.conns {
			if i != own {
				f.pass(to, message)
			}
		}
	})
	must(f.t, err)
}

func (f *fabric) pass(to *nats.Conn, message *nats.Msg) {
	if f.cut.Load() {
		return
	}
	is := f.faults.Load()
	if f.chance() < is.drop {
		return
	}
	copies := 1
	if f.chance() < is.double {
		copies = 2
	}
	for range copies {
		copied := nats.NewMsg(message.Subject)
		copied.Data = append([]byte(nil), message.Data...)
		copied.Header.Set("Bridged", "1")
		if f.chance() >= is.delay {
			_ = to.PublishMsg(copied)
			continue
		}
		f.waiting.Add(1)
		time.AfterFunc(time.Duration(f.chance()*float64(is.longest)), func() {
			defer f.waiting.Done()
			if !f.cut.Load() {
				_ = to.PublishMsg(copied)
			}
		})
	}
}

func (f *fabric) chance() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.Float64()
}
