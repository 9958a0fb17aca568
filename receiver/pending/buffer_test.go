package pending

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// judged is what a test's table was handed: a value with its line.
type judged struct {
	text string // name, op, value, and who it is of
	at   time.Time
}

// fakeTable stands in for the table: it applies the samples of pods, and answers pending without a
// sender.
type fakeTable struct {
	mu      sync.Mutex
	applied []judged
	sum     int64
	judge   func(*metric.Sample) metric.Reason
}

func (c *fakeTable) Apply(s *metric.Sample) metric.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := metric.Applied
	switch {
	case c.judge != nil:
		reason = c.judge(s)
	case s.Sender == nil || s.Sender.Pod == nil && !s.Sender.Known:
		reason = metric.Pending
	case s.Sender.Pod == nil:
		reason = metric.Identity
	}
	if reason == metric.Applied {
		c.sum += s.Whole
		value := fmt.Sprint(s.Float())
		if s.Op == metric.Insert {
			value = string(s.Member)
		}
		op := map[metric.Op]string{metric.Add: "add", metric.Assign: "assign", metric.Shift: "shift", metric.Observe: "observe", metric.Insert: "insert", metric.MarkStale: "vanish"}[s.Op]
		text := fmt.Sprintf("%s{%s} %s %s", s.Name, s.Tags, op, value)
		if s.Sender != nil && s.Sender.Pod != nil {
			text += " of " + s.Sender.Pod.Name
		}
		c.applied = append(c.applied, judged{text, time.Unix(0, s.Arrived)})
	}
	return reason
}

func (c *fakeTable) Quiesce() {}
func (c *fakeTable) Offline() {}
func (c *fakeTable) Online()  {}
func (c *fakeTable) Close()   {}

func (c *fakeTable) texts() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.applied {
		all = append(all, j.text)
	}
	return all
}

// waiting is a room with all that is around it.
type fixture struct {
	t       *testing.T
	buffer  *Buffer
	table   *fakeTable
	senders *directory
	account *ledger.Account
	log     *logtest.Buffer
	stop    func()
}

func newFixture(t *testing.T, set ...func(*Config)) *fixture {
	t.Helper()
	c := DefaultConfig()
	for _, f := range set {
		f(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, table: &fakeTable{}, senders: &directory{}, account: ledger.New().Open("statsd_udp"), log: &logtest.Buffer{}}
	w.buffer = New(c, Parts{
		NewApplier: func() Applier { return w.table }, Senders: w.senders, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	return w
}

// run starts Run, which stop ends and waits for.
func (w *fixture) run() *fixture {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.buffer.Run(ctx)
	}()
	w.stop = func() { cancel(); <-ended }
	return w
}

func unknown(address string) *metric.Sender {
	a := netip.MustParseAddr(address)
	return &metric.Sender{Key: AddressKey(a), Address: a}
}

func sampleOf(sender *metric.Sender, name string, op metric.Op, value float64) *metric.Sample {
	kind := map[metric.Op]metric.Kind{metric.Add: metric.Counter, metric.Assign: metric.Gauge, metric.Shift: metric.Gauge, metric.Observe: metric.Timer}[op]
	s := &metric.Sample{Name: []byte(name), Kind: kind, Op: op, Separator: ':', Sender: sender}
	s.SetFloat(value)
	return s
}

func (w *fixture) hold(s *metric.Sample) {
	w.t.Helper()
	if !w.buffer.Hold(s, w.account) {
		w.t.Fatal("not held")
	}
}

// elapse lets time pass, and whatever is due at its end.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// law holds the account against what happened, and the room against what it says of itself.
func (w *fixture) checkAccount(pending, applied, rejected uint64) {
	w.t.Helper()
	a := w.account
	if a.Pending() != pending || a.Applied() != applied || a.Rejected(metric.Identity) != rejected {
		w.t.Errorf("%d pending, %d applied, %d refused, want %d, %d, %d", a.Pending(), a.Applied(), a.Rejected(metric.Identity), pending, applied, rejected)
	}
	if a.Received() != pending+applied+rejected {
		w.t.Errorf("%d received", a.Received())
	}
	if pending == 0 {
		w.checkEmpty()
	}
	w.checkBytes()
}

// weigh holds what is charged against what is there.
func (w *fixture) checkBytes() {
	w.t.Helper()
	total := int64(0)
	for i := range w.buffer.shards {
		w.buffer.shards[i].mu.Lock()
		for _, h := range w.buffer.shards[i].senders {
			own := int64(senderBytes + len(h.cells)*cellBytes)
			for _, line := range h.lines {
				own += lineBytes + int64(len(line.packed))
			}
			if own != h.bytes {
				w.t.Errorf("%d bytes are charged for %d", h.bytes, own)
			}
			total += own
		}
		w.buffer.shards[i].mu.Unlock()
	}
	if bytes, _ := w.buffer.room.held(); bytes != total {
		w.t.Errorf("%d bytes are charged in all for %d", bytes, total)
	}
}

// empty: nothing remains of what was settled.
func (w *fixture) checkEmpty() {
	w.t.Helper()
	senders := 0
	for i := range w.buffer.shards {
		senders += len(w.buffer.shards[i].senders)
	}
	if bytes, n := w.buffer.room.held(); n != 0 || bytes != 0 || senders != 0 || len(w.buffer.known.keys) != 0 {
		w.t.Errorf("%d senders (%d in the shards) and %d bytes are left of nothing", n, senders, bytes)
	}
}

// A pod's first samples are applied as the pod's as soon as its address is known, with their
// arrival times.
func TestPendingIsCredited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t).run()
		defer w.stop()
		began := time.Now()
		elapse(1300 * time.Millisecond)
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 3))
		w.hold(sampleOf(unknown("10.0.0.2"), "b", metric.Add, 5))
		elapse(1800 * time.Millisecond)
		w.checkAccount(2, 0, 0)
		w.senders.enter("10.0.0.1", "web-1", 1)
		w.buffer.Known(netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("10.9.9.9"))
		synctest.Wait() // without a moment's passing
		w.checkAccount(1, 1, 0)
		if got := w.table.texts(); !slices.Equal(got, []string{"a{} add 3 of web-1"}) {
			t.Errorf("applied: %q", got)
		}
		if came := w.table.applied[0].at.Sub(began); came != 1300*time.Millisecond {
			t.Errorf("came after %v, want 1.3s", came)
		}
		w.senders.enter("10.0.0.2", "web-2", 2)
		elapse(250 * time.Millisecond) // nobody says so
		w.checkAccount(0, 2, 0)
	})
}

// The address turned out to be a node's.
func TestPendingIsRefusedOnceItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t).run()
		defer w.stop()
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 3))
		w.senders.enter("10.0.0.1", "x", 1)
		w.senders.pods["10.0.0.1"].Pod = nil
		w.buffer.Known(netip.MustParseAddr("10.0.0.1"))
		synctest.Wait()
		w.checkAccount(0, 0, 1)
		if !strings.Contains(w.log.String(), "pending sample rejected") || !strings.Contains(w.log.String(), "reason=identity") {
			t.Error(w.log)
		}
	})
}

// What the former holder of an address sent is not listed for the next one.
func TestRejectedPendingSamplesAreListedForTheirPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		listed := record.NewRejections(nil)
		w.buffer.parts.Rejections = listed
		w.table.judge = func(s *metric.Sample) metric.Reason {
			if s.Sender.Pod == nil {
				return metric.Pending
			}
			return metric.Identity
		}
		w.run()
		defer w.stop()
		w.hold(sampleOf(unknown("10.0.0.1"), "former", metric.Add, 3))
		elapse(10 * time.Second)
		w.hold(sampleOf(unknown("10.0.0.1"), "own", metric.Add, 3))
		w.senders.enter("10.0.0.1", "web-1", 1)
		w.senders.pods["10.0.0.1"].Pod.Created = time.Now().Add(-time.Second).Unix()
		w.buffer.Known(netip.MustParseAddr("10.0.0.1"))
		synctest.Wait()
		var all []string
		for _, one := range listed.All() {
			all = append(all, one.Metric+" of "+one.Sender)
		}
		if slices.Sort(all); !slices.Equal(all, []string{"former of ", "own of web-1"}) {
			t.Errorf("listed: %q", all)
		}
	})
}

// Half a minute, and not longer for those that were sent later.
func TestPendingEndsAfterHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t).run()
		defer w.stop()
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		elapse(10 * time.Second)
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		elapse(19 * time.Second)
		w.checkAccount(3, 0, 0)
		elapse(time.Second)
		w.checkAccount(2, 0, 1)
		elapse(9 * time.Second)
		w.checkAccount(2, 0, 1)
		elapse(time.Second)
		w.checkAccount(0, 0, 3)
		if n := w.buffer.expired.Load(); n != 3 {
			t.Errorf("%d expired", n)
		}
		if !strings.Contains(w.log.String(), "from=10.0.0.1") || !strings.Contains(w.log.String(), `remedy="avoid source NAT and proxies between pod and Sluice, or add the address to trusted-forwarders"`) {
			t.Error(w.log)
		}
	})
}

// Equivalent samples of one second are merged; the result is the same.
func TestPendingCoalesces(t *testing.T) {
	alice, bob := &metric.Sample{Name: []byte("s"), Kind: metric.Set, Op: metric.Insert, Member: []byte("alice")}, &metric.Sample{Name: []byte("s"), Kind: metric.Set, Op: metric.Insert, Member: []byte("bob")}
	at := func(s *metric.Sample, tags string) *metric.Sample { s.Tags = []byte(tags); return s }
	rated := func(s *metric.Sample, rate float64) *metric.Sample { s.Rate = rate; return s }
	of := func(name string, op metric.Op, v float64) *metric.Sample { return sampleOf(nil, name, op, v) }
	for _, c := range []struct {
		name  string
		first []*metric.Sample // within one second
		then  []*metric.Sample // in the next one
		want  []string
	}{
		{"counters add up by the second", []*metric.Sample{of("a", metric.Add, 1), of("a", metric.Add, 2.75), of("a", metric.Add, 0.75)},
			[]*metric.Sample{of("a", metric.Add, 4)}, []string{"a{} add 4.5", "a{} add 4"}},
		{"by their rates", []*metric.Sample{rated(of("a", metric.Add, 1), 0.5), of("a", metric.Add, 1), rated(of("a", metric.Add, 1), 0.5)}, nil,
			[]string{"a{} add 1", "a{} add 2"}},
		{"negative ones too", []*metric.Sample{of("a", metric.Add, 2), of("a", metric.Add, -2.5), of("a", metric.Add, -0.25)}, nil, []string{"a{} add -0.75"}},
		{"never beyond what would be refused", []*metric.Sample{of("a", metric.Add, 9e14), of("a", metric.Add, 9e14), of("a", metric.Add, 1e300), of("a", metric.Add, -1e300)}, nil,
			[]string{"a{} add 9e+14", "a{} add 9e+14", "a{} add 1e+300", "a{} add -1e+300"}},
		{"not beyond it by their weight", []*metric.Sample{rated(of("a", metric.Add, 8e8), 1e-6), rated(of("a", metric.Add, 8e8), 1e-6)}, nil,
			[]string{"a{} add 8e+08", "a{} add 8e+08"}},
		{"an end in its place", []*metric.Sample{of("g", metric.Assign, 1), of("g", metric.MarkStale, 0), of("g", metric.Assign, 2), of("h", metric.MarkStale, 0), of("h", metric.MarkStale, 0)}, nil,
			[]string{"g{} vanish 0", "g{} assign 2", "h{} vanish 0"}},
		{"a gauge's last value by the second", []*metric.Sample{of("g", metric.Assign, 1), of("g", metric.Assign, 2)},
			[]*metric.Sample{of("g", metric.Assign, 3)}, []string{"g{} assign 2", "g{} assign 3"}},
		{"after what shifted it", []*metric.Sample{of("g", metric.Assign, 5), of("g", metric.Shift, 1), of("g", metric.Assign, 7)}, nil,
			[]string{"g{} shift 1", "g{} assign 7"}},
		{"shifts stay apart, and in order", []*metric.Sample{of("g", metric.Assign, 5), of("g", metric.Shift, 1), of("g", metric.Shift, 1)}, nil,
			[]string{"g{} assign 5", "g{} shift 1", "g{} shift 1"}},
		{"however the line is spelled", []*metric.Sample{at(of("g", metric.Assign, 1), "a,b"), at(of("g", metric.Assign, 2), "b,a"), at(of("g", metric.Assign, 3), "a,b")}, nil,
			[]string{"g{b,a} assign 2", "g{a,b} assign 3"}},
		{"members once", []*metric.Sample{alice, bob, alice}, nil, []string{"s{} insert bob", "s{} insert alice"}},
		{"observations all", []*metric.Sample{of("t", metric.Observe, 3), of("t", metric.Observe, 3)}, nil, []string{"t{} observe 3", "t{} observe 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t).run()
				defer w.stop()
				for _, batch := range [][]*metric.Sample{c.first, c.then} {
					for _, s := range batch {
						s.Sender = unknown("10.0.0.1")
						w.hold(s)
						time.Sleep(time.Millisecond)
					}
					time.Sleep(time.Second)
				}
				n := uint64(len(c.first) + len(c.then))
				w.checkAccount(n, 0, 0)
				w.senders.enter("10.0.0.1", "p", 1)
				w.buffer.Known(netip.MustParseAddr("10.0.0.1"))
				synctest.Wait()
				w.checkAccount(0, n, 0)
				var want []string
				for _, text := range c.want {
					want = append(want, text+" of p")
				}
				if got := w.table.texts(); !slices.Equal(got, want) {
					t.Errorf("applied %q, want %q", got, want)
				}
			})
		})
	}
}

// A forwarder speaks of a pod that is not known: the forwarder is judged as what it was.
func TestPendingClaimOfAKnownSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		known := map[string]bool{"web-2": true}
		w.table.judge = func(s *metric.Sample) metric.Reason {
			if s.Sender.Pod.Name != "agent" || !known[string(s.Tags)] {
				return metric.Pending
			}
			return metric.Applied
		}
		w.run()
		defer w.stop()
		agent := &metric.Sender{Key: 7, Known: true, Address: netip.MustParseAddr("10.0.0.9"), Pod: &metric.Pod{Name: "agent"}}
		for _, pod := range []string{"web-1", "web-2", "web-1"} {
			s := sampleOf(agent, "a", metric.Add, 1)
			s.Tags = []byte(pod)
			w.hold(s)
		}
		w.senders.enter("10.0.0.9", "somebody-else", 8)
		elapse(time.Second)
		w.checkAccount(2, 1, 0)
		w.table.mu.Lock() // Apply has it
		known["web-1"] = true
		w.table.mu.Unlock()
		elapse(time.Second)
		w.checkAccount(0, 3, 0)
	})
}

// Each bound refuses at once, is counted, and told once a second.
func TestPendingBounds(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.MaxSenders, c.MaxBytesPerSender, c.MaxBytes = 3, 4<<10, 10<<10 })
	held := func(address string) (n int) {
		for i := 0; ; i++ {
			if !w.buffer.Hold(sampleOf(unknown(address), fmt.Sprint("name", i), metric.Add, 1), w.account) {
				return n
			}
			if n++; n > 1000 {
				t.Fatal("no bound")
			}
		}
	}
	first := held("10.0.0.1")
	if first < 10 {
		t.Errorf("%d lines in 4 KiB", first)
	}
	if second := held("10.0.0.2"); second != first {
		t.Errorf("%d lines of another sender, want %d", second, first)
	}
	if third := held("10.0.0.3"); third == 0 || third >= first {
		t.Errorf("%d lines of the third sender, where 2 KiB were left", third)
	}
	if fourth := held("10.0.0.4"); fourth != 0 {
		t.Errorf("%d lines of one sender too many", fourth)
	}
	if n := w.buffer.full.Load(); n != 4 {
		t.Errorf("%d refused for want of room, want 4", n)
	}
	if got := strings.Count(w.log.String(), "a limit of pending samples is reached"); got != 1 {
		t.Errorf("told %d times in a moment", got)
	}
	if over, n := w.buffer.room.held(); over > 10<<10 || n != 3 {
		t.Errorf("%d bytes of %d senders", over, n)
	}
	w.checkBytes()
	if !w.buffer.Hold(sampleOf(unknown("10.0.0.1"), "name0", metric.Add, 1), w.account) {
		t.Error("what adds to what is held needs no room")
	}
}

// A sender whose first sample has no room leaves nothing.
func TestPendingTooLongForTheRoom(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.MaxBytesPerSender = 4 << 10 })
	s := sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1)
	s.Tags = bytes.Repeat([]byte("x"), 4<<10)
	if w.buffer.Hold(s, w.account) {
		t.Error("held")
	}
	w.checkAccount(0, 0, 0)
}

// The two parts of a sum are as a Sample has them.
func TestPendingSumsAreNormal(t *testing.T) {
	for _, c := range []struct {
		whole    int64
		fraction float64
		want     string
	}{
		{3, 1.5, "4 0.5"}, {-3, -1.5, "-4 -0.5"}, {2, -0.25, "1 0.75"}, {-2, 0.25, "-1 -0.75"}, {0, -0.5, "0 -0.5"},
		{1, -1.5, "0 -0.5"}, {-1, 1.5, "0 0.5"}, {0, 0, "0 0"},
	} {
		whole, fraction := normal(c.whole, c.fraction)
		if got := fmt.Sprint(whole, fraction); got != c.want {
			t.Errorf("%d and %v: %s, want %s", c.whole, c.fraction, got, c.want)
		}
	}
	sum := cell{whole: 2, fraction: 0.75}
	if !sum.merge(sampleOf(nil, "a", metric.Add, 3.5)) || sum.whole != 6 || sum.fraction != 0.25 {
		t.Errorf("2.75 and 3.5 are %d and %v", sum.whole, sum.fraction)
	}
}

// Samples without a sender stay without one, also after some of them were settled.
func TestPendingWithoutASender(t *testing.T) {
	w := newFixture(t)
	w.table.judge = func(s *metric.Sample) metric.Reason {
		switch {
		case s.Sender != nil:
			return metric.BadValue
		case string(s.Name) == "a":
			return metric.Applied
		}
		return metric.Pending
	}
	w.hold(sampleOf(nil, "a", metric.Add, 1))
	w.hold(sampleOf(nil, "b", metric.Add, 1))
	r := &retrier{pending: w.buffer, applier: w.table}
	for range 3 {
		r.all()
		w.checkAccount(1, 1, 0)
	}
}

// A thousand lines a second for five seconds, of the kind that takes most: the default has room.
func TestPendingDefaultHoldsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t).run()
		defer w.stop()
		for i := range 5000 {
			s := sampleOf(unknown("10.0.0.1"), fmt.Sprint("http_request_duration_", i%100), metric.Observe, float64(i))
			s.Tags = []byte("route:/checkout,method:GET,code:200")
			w.hold(s)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // an attempt is due in this very instant
		w.checkAccount(5000, 0, 0)
		w.senders.enter("10.0.0.1", "p", 1)
		w.buffer.Known(netip.MustParseAddr("10.0.0.1"))
		synctest.Wait()
		w.checkAccount(0, 5000, 0)
	})
}

// Samples whose sender becomes known while they are tried, before they are back in the buffer, are
// tried again at once.
func TestPendingKnownWhileTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		tried := 0
		w.table.judge = func(s *metric.Sample) metric.Reason {
			if tried++; tried > 1 {
				return metric.Applied
			}
			w.senders.enter("10.0.0.1", "web-1", 1)
			w.buffer.Known(netip.MustParseAddr("10.0.0.1"))
			return metric.Pending
		}
		w.run()
		defer w.stop()
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		elapse(w.buffer.config.RetryInterval) // the first attempt
		w.checkAccount(0, 1, 0)
	})
}

// On stop, everything is retried once, the rest is rejected, and later samples are not held.
func TestPendingStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t).run()
		w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
		w.hold(sampleOf(unknown("10.0.0.2"), "b", metric.Add, 1))
		w.senders.enter("10.0.0.1", "web-1", 1)
		w.stop()
		w.checkAccount(0, 1, 1)
		if w.buffer.Hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1), w.account) {
			t.Error("taken after the end")
		}
		w.checkAccount(0, 1, 1)
	})
}

// Many goroutines bring, others make known, one tries: every sample is settled once, and the books
// balance all along.
func TestPendingUnderFire(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.RetryInterval, c.MaxBytes = time.Millisecond, 1<<20 })
	w.run()
	books := ledger.New()
	const bringers, each = 4, 5000
	var brought sync.WaitGroup
	accounts := make([]*ledger.Account, bringers)
	for i := range bringers {
		accounts[i] = books.Open("statsd_udp")
		random := rand.New(rand.NewPCG(1, uint64(i)))
		brought.Go(func() {
			for range each {
				address := fmt.Sprintf("10.0.0.%d", random.IntN(50))
				s := sampleOf(unknown(address), fmt.Sprint("m", random.IntN(5)), metric.Add, 1)
				if !w.buffer.Hold(s, accounts[i]) {
					accounts[i].Count(metric.Identity)
				}
			}
		})
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := uint64(0); ; {
			for i := range 25 {
				address := fmt.Sprintf("10.0.0.%d", i)
				w.senders.enter(address, "p", uint64(i+1))
				w.buffer.Known(netip.MustParseAddr(address))
			}
			now := accounts[0].Received()
			if now < last {
				t.Errorf("received fell from %d to %d", last, now)
			}
			last = now
			select {
			case <-done:
				return
			default:
			}
		}
	})
	brought.Wait()
	close(done)
	watching.Wait()
	w.stop()
	var applied, rejected uint64
	for _, a := range accounts {
		if a.Received() != each || a.Pending() != 0 {
			t.Errorf("%d received, %d pending, want %d and none", a.Received(), a.Pending(), each)
		}
		applied += a.Applied()
		rejected += a.Rejected(metric.Identity)
	}
	if applied != uint64(w.table.sum) || applied == 0 || rejected == 0 || applied+rejected != bringers*each {
		t.Errorf("%d applied (%d in the table), %d refused of %d", applied, w.table.sum, rejected, bringers*each)
	}
	w.checkEmpty()
}

// Samples that arrive while their sender is retried follow those that are left.
func TestPendingAbsorbs(t *testing.T) {
	w := newFixture(t)
	again := 0
	w.table.judge = func(s *metric.Sample) metric.Reason {
		if again == 0 { // once, in the middle of a round
			again++
			w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 10))
			w.hold(sampleOf(unknown("10.0.0.1"), "b", metric.Observe, 20))
		}
		if again < 3 {
			return metric.Pending
		}
		return metric.Applied
	}
	w.hold(sampleOf(unknown("10.0.0.1"), "a", metric.Add, 1))
	r := &retrier{pending: w.buffer, applier: w.table}
	r.all()
	w.checkAccount(3, 0, 0)
	if _, n := w.buffer.room.held(); n != 1 {
		t.Errorf("%d senders, want 1", n)
	}
	again = 3
	r.all()
	w.checkAccount(0, 3, 0)
	if got := w.table.texts(); !slices.Equal(got, []string{"a{} add 1", "a{} add 10", "b{} observe 20"}) {
		t.Errorf("applied %q", got)
	}
}

// A packed line gives back all of the sample, and two that differ anywhere differ packed.
func FuzzPackedLine(f *testing.F) {
	f.Add([]byte("a"), []byte("k:v"), []byte("ci-1"), []byte("pu-1"), []byte("m"), "pods", "shop", uint8(0xff), int64(-1), 0.5)
	f.Add([]byte(""), []byte(""), []byte(""), []byte(""), []byte(""), "", "", uint8(0), int64(1<<62), math.Inf(1))
	f.Fuzz(func(t *testing.T, name, tags, container, external, member []byte, one, two string, flags uint8, number int64, rate float64) {
		if math.IsNaN(rate) {
			return
		}
		s := metric.Sample{
			Name: name, Tags: tags, Container: container, External: external, Member: member,
			Kind: metric.Kind(flags & 3), Op: metric.Op(flags >> 2 & 3), Separator: flags, DefaultExternal: flags&16 != 0,
			Rate: rate, Dated: number, TTL: time.Duration(number / 2),
		}
		if flags&32 != 0 {
			s.Object = &metric.Object{Resource: one, Namespace: two, Name: one + two, UID: two + one}
		}
		if flags&64 != 0 {
			s.Tags, s.Fields = nil, []metric.Label{{Key: one, Value: two}, {Key: two, Value: one}}
		}
		if flags&128 != 0 {
			s.Started, s.Late = number, number > 0
			s.Histogram = &metric.Histogram{Bounds: []float64{rate}, Counts: []float64{float64(flags), rate}, Count: rate, Sum: float64(number), Min: rate, Max: 1, Quantiles: []metric.Quantile{{Q: 0.5, Value: rate}}}
		}
		packed := appendLine(nil, &s)
		var u unpacked
		u.read(packed)
		got := u.sample
		for _, b := range []*[]byte{&s.Name, &s.Tags, &s.Container, &s.External, &s.Member} {
			if len(*b) == 0 {
				*b = nil
			}
		}
		if len(got.Fields) == 0 {
			got.Fields = nil
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v became %+v", s, got)
		}
		if other := append(bytes.Clone(name), 'x'); true {
			s.Name = other
			if bytes.Equal(appendLine(nil, &s), packed) {
				t.Fatal("two lines, one form")
			}
		}
	})
}

// directory knows which pod holds an address.
type directory struct {
	mu   sync.Mutex
	pods map[string]*metric.Sender
}

func (d *directory) Sender(a netip.Addr) *metric.Sender {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pods[a.String()]
}

func (d *directory) enter(address, pod string, key uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods == nil {
		d.pods = map[string]*metric.Sender{}
	}
	d.pods[address] = &metric.Sender{
		Key: key, Address: netip.MustParseAddr(address), Known: true,
		Pod: &metric.Pod{Namespace: "shop", Name: pod, UID: "uid-" + pod},
	}
}

// What arrives of a sender while its samples are retried counts with these.
func TestSamplesThatAreRetriedCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 16 << 10
		w := newFixture(t, func(c *Config) { c.MaxBytesPerSender = most })
		n := 0
		hold := func() (held bool) {
			n++
			return w.buffer.Hold(sampleOf(unknown("10.0.0.1"), fmt.Sprint("name", n), metric.Add, 1), w.account)
		}
		for hold() {
		}
		retried := 0
		w.table.judge = func(*metric.Sample) metric.Reason {
			retried++
			hold()
			return metric.Pending
		}
		w.run()
		elapse(DefaultConfig().RetryInterval)
		if bytes, senders := w.buffer.room.held(); retried == 0 || bytes > most || senders != 1 {
			t.Errorf("%d bytes of %d senders are held after %d were retried, want %d at most", bytes, senders, retried, most)
		}
		w.table.mu.Lock()
		w.table.judge = func(*metric.Sample) metric.Reason { return metric.Applied }
		w.table.mu.Unlock()
		elapse(DefaultConfig().RetryInterval)
		if !hold() {
			t.Error("a sender has no room once its samples were applied")
		}
		w.stop()
	})
}
