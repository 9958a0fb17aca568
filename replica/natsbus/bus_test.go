package natsbus

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
)

// host is a loopback address of this process alone, so that nothing else takes a port between its choice and
// the start of the bus.
var host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))

// lastPort is the last that a test was given: none is given twice. They are not those that the kernel chooses
// from, as for a listener of another process at all addresses.
var lastPort atomic.Int32

// reserve returns loopback addresses on which nothing listens.
func reserve(n int) (all []string) {
	for range n {
		all = append(all, fmt.Sprintf("%s:%d", host, 20000+lastPort.Add(1)))
	}
	return all
}

// member is a replica of a test: a bus that collects what it receives.
type member struct {
	*Bus
	t    testing.TB
	stop context.CancelFunc
	done chan error
	log  *logtest.Buffer

	mu       sync.Mutex
	received []string
}

// patient are timeouts that no test runs into, however slow the machine is. The end of a bus whose NATS has just
// gone takes the whole of close.
var patient = timeouts{start: time.Hour, handshake: time.Hour, write: time.Hour, ping: time.Hour, close: 30 * time.Second}

func open(t testing.TB, cfg Config) *member {
	t.Helper()
	m := &member{t: t, done: make(chan error, 1), log: &logtest.Buffer{}}
	var err error
	m.Bus, err = openWithin(patient, cfg, slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() { m.done <- m.Run(ctx) }()
	t.Cleanup(m.end)
	if _, err := m.Subscribe("test.>", func(subject string, message []byte) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.received = append(m.received, subject+" "+string(message))
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// end stops the member and waits for it; it may be called twice.
func (m *member) end() {
	m.stop()
	select {
	case err, first := <-m.done:
		if err != nil {
			m.t.Errorf("Run: %v", err)
		}
		if first {
			close(m.done)
		}
	case <-time.After(10 * time.Minute):
		m.t.Error("Run did not return")
	}
}

func (m *member) got(message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.received, message)
}

func (m *member) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.received)
}

// eventually waits for something, for some minutes at most.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not yet: %s", what)
		}
	}
}

// hears waits until a message of one member arrives at the other; it publishes again until then,
// since a message is sent at most once.
func hears(t testing.TB, to, from *member) {
	t.Helper()
	message := fmt.Sprintf("hello at %d", time.Now().UnixNano())
	eventually(t, "a message arrives", func() bool {
		_ = from.Publish("test.a", []byte(message))
		return to.got("test.a " + message)
	})
}

// apart checks that two members publish to each other, and hear nothing, until their connections
// were refused.
func apart(t *testing.T, a, b *member, refused func() bool) {
	t.Helper()
	eventually(t, "the connections are refused", func() bool {
		_, _ = a.Publish("test.a", []byte("apart")), b.Publish("test.b", []byte("apart"))
		return refused()
	})
	if a.got("test.b apart") || b.got("test.a apart") {
		t.Fatal("a message arrived")
	}
}

// logs reports whether the log has a text.
func (m *member) logs(text string) bool { return m.log.Count(text) > 0 }

// peers are configurations of n replicas with TLS; each has all as its peers, itself included.
func peers(t testing.TB, n int, ca *testauthority.Authority) []Config {
	t.Helper()
	addresses := reserve(n)
	var all []Config
	for i, address := range addresses {
		cfg := DefaultConfig()
		cfg.Name, cfg.Listen, cfg.Peers = fmt.Sprintf("r%d", i), address, addresses
		if ca == nil {
			cfg.Insecure = true
		} else {
			cfg.CertFile, cfg.KeyFile, cfg.CAFile = ca.Sign(t, t.TempDir(), testauthority.Leaf{Host: host})
		}
		must(t, cfg.Validate())
		all = append(all, cfg)
	}
	return all
}

func TestThreeReplicasHearEachOther(t *testing.T) {
	t.Parallel()
	configs := peers(t, 3, testauthority.New(t))
	var all []*member
	for _, cfg := range configs {
		all = append(all, open(t, cfg))
	}
	for i, from := range all {
		for j, to := range all {
			if i != j {
				hears(t, to, from)
			}
		}
	}
	for i, m := range all {
		if n := m.server.NumRemotes(); n != 2 {
			t.Errorf("replica %d has %d connections, want 2", i, n)
		}
		if strings.Contains(m.log.String(), "level=ERROR") {
			t.Errorf("replica %d: %s", i, m.log)
		}
	}
}

// Two processes with one name hear each other, so that package replica can name the mistake.
func TestSameNameIsHeard(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, nil)
	all[1].Name = all[0].Name
	a, b := open(t, all[0]), open(t, all[1])
	hears(t, b, a)
	hears(t, a, b)
}

// Messages arrive in their order, with their bytes, up to the largest, and not at their sender.
func TestMessagesAreKeptApart(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, testauthority.New(t))
	a, b := open(t, all[0]), open(t, all[1])
	hears(t, b, a)
	message := make([]byte, 0, maxMessage)
	var want []string
	for i := range 200 {
		message = fmt.Appendf(message[:0], "message %d", i)
		must(t, a.Publish(fmt.Sprintf("test.%d", i), message))
		want = append(want, fmt.Sprintf("test.%d message %d", i, i))
	}
	large := bytes.Repeat([]byte("x"), maxMessage)
	must(t, a.Publish("test.large", large))
	want = append(want, "test.large "+string(large))
	eventually(t, "the last message arrives", func() bool { return b.got(want[len(want)-1]) })
	hellos := func(received string) bool { return strings.HasPrefix(received, "test.a ") }
	if got := slices.DeleteFunc(b.received, hellos); !slices.Equal(got, want) {
		t.Errorf("%d messages arrived, in another order or with other bytes; want %d", len(got), len(want))
	}
	if a.count() != 0 {
		t.Errorf("received own messages: %v", a.received)
	}
}

func TestLastMessagesBeforeTheEndArrive(t *testing.T) {
	for _, ca := range []*testauthority.Authority{nil, testauthority.New(t)} {
		all := peers(t, 2, ca)
		a, b := open(t, all[0]), open(t, all[1])
		hears(t, b, a)
		const messages = 1000
		wanted, message := b.count()+messages, bytes.Repeat([]byte("x"), 20_000)
		for range messages {
			must(t, a.Publish("test.last", message))
		}
		a.end()
		eventually(t, "all messages arrive", func() bool { return b.count() >= wanted })
	}
}

func TestRestartedReplicaIsHeardAgain(t *testing.T) {
	t.Parallel()
	all := peers(t, 3, testauthority.New(t))
	a, b, c := open(t, all[0]), open(t, all[1]), open(t, all[2])
	hears(t, a, b)
	b.end()
	hears(t, a, c)
	b = open(t, all[1])
	hears(t, a, b)
	hears(t, b, a)
	hears(t, b, c)
}

// A peer that is away costs one log line, and is found when it comes.
func TestPeerThatIsAway(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, testauthority.New(t))
	all[0].Peers = append([]string{"sluice-9.invalid:6222"}, all[0].Peers...)
	m := open(t, all[0])
	away := []string{"sluice-9.invalid", all[1].Listen}
	for _, name := range away {
		eventually(t, "several attempts", func() bool { return m.attempts("DEBUG", name) > 2 })
		if n := m.attempts("WARN", name); n != 1 {
			t.Errorf("%d log lines about %s, want 1:\n%s", n, name, m.log)
		}
	}
	hears(t, m, open(t, all[1]))
}

// attempts counts the lines of one level that name a peer.
func (m *member) attempts(level, peer string) (n int) {
	for line := range strings.Lines(m.log.String()) {
		if strings.Contains(line, "level="+level) && strings.Contains(line, peer) && strings.Contains(line, "connect to route") {
			n++
		}
	}
	return n
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	all := peers(t, 1, nil)
	open(t, all[0])
	_, err := Open(t.Context(), all[0], slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("%v, want an error that names the cause", err)
	}
}

// Clusters of other names, as of two releases behind one address, stay apart.
func TestOtherClusterIsRefused(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, nil)
	all[1].Cluster = "other"
	a, b := open(t, all[0]), open(t, all[1])
	apart(t, a, b, func() bool { return a.logs("Cluster Name Conflict") && b.logs("Cluster Name Conflict") })
}

// A handler that is too slow loses messages of its own subscription and of no other.
func TestFlood(t *testing.T) {
	all := peers(t, 2, nil)
	a, b := open(t, all[0]), open(t, all[1])
	hears(t, b, a)
	release := make(chan struct{})
	cancel, err := b.Subscribe("flood", func(string, []byte) { <-release })
	must(t, err)
	defer close(release)
	defer cancel()
	message := bytes.Repeat([]byte("x"), 1<<20)
	full := 0
	eventually(t, "the slow subscription is counted", func() bool {
		err := a.Publish("flood", message)
		for ; err == nil; err = a.Publish("flood", message) {
		}
		if full++; !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		return b.slow.Load() > 0
	})
	if got := a.dropped.Load(); got != uint64(full) {
		t.Errorf("counted %d dropped messages, want %d", got, full)
	}
	hears(t, b, a) // another subscription, behind the queued messages
}

// gated forwards connections to another address. What their clients send while hold is true waits until release is closed.
func gated(t *testing.T, to string, hold *atomic.Bool, release chan struct{}) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(near, far) }()
			go func() {
				for b := make([]byte, 1<<10); ; {
					n, err := near.Read(b)
					if hold.Load() {
						<-release
					}
					if _, failed := far.Write(b[:n]); err != nil || failed != nil {
						_ = far.Close()
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// What can wait waits while a replica takes nothing, and nothing is lost.
func TestTheBusIsBusyWhileARouteIs(t *testing.T) {
	all := peers(t, 2, nil)
	var hold atomic.Bool
	release := make(chan struct{})
	all[0].Peers, all[1].Peers = []string{gated(t, all[1].Listen, &hold, release)}, nil
	a, b := open(t, all[0]), open(t, all[1])
	hears(t, b, a)
	hold.Store(true)
	message, sent := make([]byte, 1<<20), 0
	random := rand.NewChaCha8([32]byte{})
	eventually(t, "the bus is busy, though its outbox is empty", func() bool {
		for ; !a.Busy() && sent < 200; sent++ {
			_, _ = random.Read(message) // which does not shrink
			must(t, a.Publish("test.large", message))
		}
		return a.Busy() && !a.outbox.busy()
	})
	close(release)
	eventually(t, "the bus is not busy", func() bool { return !a.Busy() })
	eventually(t, "all has arrived", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 0
		for _, one := range b.received {
			if strings.HasPrefix(one, "test.large ") {
				n++
			}
		}
		return n == sent
	})
}

// userServer is a NATS of the user.
func userServer(t *testing.T, port int, change ...func(*server.Options)) *server.Server {
	t.Helper()
	options := &server.Options{Host: host, Port: port, NoSigs: true, NoLog: true, NoSystemAccount: true}
	for _, c := range change {
		c(options)
	}
	s, err := server.NewServer(options)
	must(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("not ready")
	}
	return s
}

// The user's NATS may start after the replicas, and may go and come back.
func TestUsersOwnNATS(t *testing.T) {
	t.Parallel()
	address := reserve(1)[0]
	port := netPort(t, address)
	var all []*member
	for i := range 2 {
		cfg := DefaultConfig()
		cfg.Name, cfg.URL = fmt.Sprintf("r%d", i), "nats://"+address
		must(t, cfg.Validate())
		all = append(all, open(t, cfg))
	}
	if all[0].Addr() != nil {
		t.Errorf("listens on %v, want no server of its own", all[0].Addr())
	}
	for range 2 {
		s := userServer(t, port)
		hears(t, all[0], all[1])
		hears(t, all[1], all[0])
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// The user's NATS is verified against nats-ca-file; of another authority, it is never spoken to.
func TestUsersOwnNATSWithTLS(t *testing.T) {
	t.Parallel()
	ca := testauthority.New(t)
	certFile, keyFile, caFile := ca.Sign(t, t.TempDir(), testauthority.Leaf{Host: host})
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	must(t, err)
	s := userServer(t, server.RANDOM_PORT, func(o *server.Options) {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	})
	_, _, foreign := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{Host: host})
	var all []*member
	for i, file := range []string{caFile, caFile, foreign, caFile} {
		cfg := DefaultConfig()
		cfg.Name, cfg.URL, cfg.URLCAFile = fmt.Sprintf("r%d", i), "tls://"+s.Addr().String(), file
		all = append(all, open(t, cfg))
	}
	hears(t, all[0], all[1])
	apart(t, all[2], all[3], func() bool {
		err := all[2].conn.LastError()
		return err != nil && strings.Contains(err.Error(), "unknown authority")
	})
	if all[2].conn.IsConnected() {
		t.Error("connected to a NATS of another authority")
	}
}

func netPort(t *testing.T, address string) int {
	t.Helper()
	resolved, err := net.ResolveTCPAddr("tcp", address)
	must(t, err)
	return resolved.Port
}
