package receiver

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// recorder stands where the table will: it adds up what is applied, by name, and holds the servers
// to the contract of Applier.
type recorder struct {
	mu      sync.Mutex
	sums    map[string]int64
	refuse  map[string]metric.Reason
	faults  []string
	opened  int
	parked  int
	closed  int
	applied int
	passed  int
	from    map[string]string // who sent the last sample, by name
	judge   func(*metric.Sample) metric.Reason
}

func newRecorder() *recorder { return &recorder{sums: map[string]int64{}} }

type recordingApplier struct {
	knowsNone
	r              *recorder
	parked, closed bool
}

// knowsNone is a cache of lines that knows none.
type knowsNone struct{ lines int }

func (k *knowsNone) LookupLines(lines []metric.Line)  { k.lines = len(lines) }
func (k *knowsNone) ApplyKnown(int) int               { return 0 }
func (k *knowsNone) UnknownLines(from, limit int) int { return min(limit, k.lines-from) }
func (k *knowsNone) PrefetchNew(int, []metric.Sample) {}

func (r *recorder) newApplier() LineApplier {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened++
	return &recordingApplier{r: r}
}

func (a *recordingApplier) Apply(s *metric.Sample) metric.Reason {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.parked || a.closed {
		a.r.faults = append(a.r.faults, "Apply on a parked or closed Applier")
	}
	if reason := a.r.refuse[string(s.Name)]; reason != metric.Applied {
		return reason
	}
	if a.r.judge != nil {
		if reason := a.r.judge(s); reason != metric.Applied {
			return reason
		}
	}
	a.r.note(s)
	a.r.applied++
	a.r.sums[string(s.Name)] += s.Whole
	return metric.Applied
}

// note records the sender of a sample, and whether its listener is external.
func (r *recorder) note(s *metric.Sample) {
	who := "nobody"
	if s.Sender != nil {
		who = s.Sender.String()
		if s.Sender.Pod != nil {
			who += " " + s.Sender.Pod.Name
		}
		if !s.Sender.Known {
			who += " unknown"
		}
	}
	if s.DefaultExternal {
		who += " external"
	}
	if r.from == nil {
		r.from = map[string]string{}
	}
	r.from[string(s.Name)] = who
}

func (r *recorder) sentBy(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from[name]
}

func (a *recordingApplier) Quiesce() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.parked {
		a.r.faults = append(a.r.faults, "Quiesce on an offline Applier")
	}
	a.r.passed++
}

func (a *recordingApplier) Offline() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.parked {
		a.r.faults = append(a.r.faults, "parked twice")
	}
	a.parked = true
	a.r.parked++
}

func (a *recordingApplier) Online() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if !a.parked {
		a.r.faults = append(a.r.faults, "unparked twice")
	}
	a.parked = false
	a.r.parked--
}

func (a *recordingApplier) Close() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.closed {
		a.r.faults = append(a.r.faults, "closed twice")
	}
	a.closed = true
	a.r.closed++
}

func (r *recorder) fault(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, text)
}

func (r *recorder) sum(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums[name]
}

func (r *recorder) allParked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened > 0 && r.parked == r.opened
}

// fixture is a server with what it writes to.
type fixture struct {
	t        *testing.T
	server   *Server
	recorder *recorder
	ledger   *ledger.Ledger
	log      *logtest.Buffer
	cancel   context.CancelFunc
	ended    chan struct{}
}

func testConfig(listeners ...Listener) Config {
	config := DefaultConfig()
	config.Listeners = listeners
	config.MaxLine = 1024
	config.DrainTimeout = time.Hour // a stop that takes it does not end within a test
	return config
}

// bind makes a server that does not run yet: what is sent waits in the kernel.
func bind(t *testing.T, config Config) *fixture {
	t.Helper()
	return bindParts(t, config, func(*Parts) {})
}

// bindParts is bind, with parts besides.
func bindParts(t *testing.T, config Config, set func(*Parts)) *fixture {
	t.Helper()
	f := &fixture{t: t, recorder: newRecorder(), ledger: ledger.New(), log: &logtest.Buffer{}, ended: make(chan struct{})}
	parts := Parts{NewApplier: f.recorder.newApplier, Ledger: f.ledger, Logger: slog.New(slog.NewTextHandler(f.log, nil))}
	set(&parts)
	var err error
	f.server, err = New(config, parts)
	must(t, err)
	return f
}

// run serves until stop, or until the test ends.
func (f *fixture) run() *fixture {
	ctx, cancel := context.WithCancel(context.Background())
	f.start(ctx)
	f.cancel = cancel
	f.t.Cleanup(f.stop)
	return f
}

func (f *fixture) start(ctx context.Context) {
	go func() {
		defer close(f.ended)
		if err := f.server.Run(ctx); err != nil {
			f.recorder.fault(err.Error())
		}
	}()
}

func serve(t *testing.T, config Config) *fixture {
	t.Helper()
	return bind(t, config).run()
}

// stop ends the server, waits for it, and checks what must hold then.
func (f *fixture) stop() {
	f.t.Helper()
	f.cancel()
	select {
	case <-f.ended:
	case <-time.After(time.Minute):
		f.t.Fatal("Run did not return")
	}
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	if len(f.recorder.faults) > 0 {
		f.t.Errorf("contract of Applier broken: %q", f.recorder.faults)
	}
	if f.recorder.opened != f.recorder.closed {
		f.t.Errorf("%d Appliers opened, %d closed", f.recorder.opened, f.recorder.closed)
	}
	if applied := f.total((*ledger.Account).Applied); int(applied) != f.recorder.applied {
		f.t.Errorf("accounts say %d applied, the table %d", applied, f.recorder.applied)
	}
}

// total sums a figure over all accounts.
func (f *fixture) total(figure func(*ledger.Account) uint64) uint64 { return f.ledger.Sum(figure) }

func (f *fixture) rejected(r metric.Reason) uint64 {
	return f.total(func(a *ledger.Account) uint64 { return a.Rejected(r) })
}

func (f *fixture) drops() uint64 {
	return f.total(func(a *ledger.Account) uint64 { return a.KernelDrops() })
}

func (f *fixture) received() uint64 { return f.total((*ledger.Account).Received) }

func (f *fixture) dial(i int) net.Conn {
	f.t.Helper()
	addr := f.server.Addrs()[i]
	conn, err := net.Dial(addr.Network(), addr.String())
	must(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (f *fixture) send(conn net.Conn, text string) {
	f.t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		f.t.Fatal(err)
	}
}

// eventually waits for what a socket will bring.
func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within a minute (received %d, sums %v, log %s)", what, f.received(), f.recorder.sums, f.log)
		}
	}
}

// sendQueued sends a datagram to a socket that nobody reads. It waits until the datagram is queued or
// dropped: even on loopback, the kernel may deliver it after the call.
func (f *fixture) sendQueued(conn net.Conn, s *packetSocket, packet []byte) {
	f.t.Helper()
	before, drops := queuedBytes(s), s.drops()
	if _, err := conn.Write(packet); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("the datagram is queued", func() bool { return queuedBytes(s) != before || s.drops() != drops })
}

// awaitDelivered waits until the server's kernel has all data of a TCP connection.
func (f *fixture) awaitDelivered(conn net.Conn) {
	f.t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	must(f.t, err)
	f.eventually("the data is delivered", func() bool {
		unsent := -1
		err := raw.Control(func(fd uintptr) { unsent, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
		return err == nil && unsent == 0
	})
}

func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "s.sock") }

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
