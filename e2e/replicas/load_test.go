package replicas

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

const (
	// perSecond is the number of increments that each client sends.
	perSecond = 100
	// settled is how long a load must run until its rates stand. The age of a series is known to a
	// second, so the rate of a younger one over a minute is up to a tenth too low.
	settled = 20 * time.Second
)

// client sends increments at an even pace to one replica: of "jobs" with its own label, and of
// "shared", which all clients send.
type client struct {
	name string
	to   atomic.Pointer[server.Server]
	sent atomic.Int64
}

// load runs clients until its end. Client i begins at replica i.
type load struct {
	clients []*client
	late    atomic.Int64 // the most samples that were sent, or received, later than they were due
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func startLoad(t *testing.T, m mesh) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop}
	for i, s := range m {
		c := &client{name: fmt.Sprint("client-", i)}
		c.to.Store(s)
		l.clients = append(l.clients, c)
		l.done.Go(func() { l.run(ctx, c) })
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// endWithAll ends the load, and requires that the replicas have counted each sample.
func (l *load) endWithAll(t *testing.T, m mesh) {
	t.Helper()
	l.end()
	wantTotals(t, m, map[string]float64{"jobs:total": float64(l.sent()), "shared:total": float64(l.sent())})
}

// run catches up if the machine was busy, and notes how many samples were late.
func (l *load) run(ctx context.Context, c *client) {
	begun, tick := time.Now(), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	conns := map[string]net.Conn{}
	for due := int64(0); ; {
		select {
		case <-ctx.Done():
			for _, conn := range conns {
				_ = conn.Close()
			}
			return
		case now := <-tick.C:
			due = int64(now.Sub(begun).Seconds() * perSecond)
		}
		address := c.to.Load().UDP
		conn := conns[address]
		if conn == nil {
			var err error
			if conn, err = net.Dial("udp", address); err != nil {
				continue
			}
			conns[address] = conn
		}
		l.delayed(due - c.sent.Load())
		for ; c.sent.Load() < due; c.sent.Add(1) {
			_, _ = fmt.Fprintf(conn, "jobs:1|c|#client:%s\nshared:1|c", c.name) // refused while a server is down
		}
	}
}

// leave moves the clients of a replica to another, as a Service does once the endpoint is gone.
func (l *load) leave(from, to *server.Server) {
	for _, c := range l.clients {
		c.to.CompareAndSwap(from, to)
	}
}

// delayed notes that samples were late.
func (l *load) delayed(samples int64) {
	for known := l.late.Load(); samples > known && !l.late.CompareAndSwap(known, samples); known = l.late.Load() {
	}
}

func (l *load) sent() (n int64) {
	for _, c := range l.clients {
		n += c.sent.Load()
	}
	return n
}

// reading is what an autoscaler would see in one metric over some time.
type reading struct {
	low, high float64
	failures  int
	last      string // the last failure
}

// observed are the readings by metric and replica.
type observed map[string]*reading

// observe reads the metrics of the given replicas every 200 ms. The totals of a replica must not fall
// by more than loss. Those of two replicas differ by up to a flush of what each receives.
func observe(t *testing.T, during time.Duration, loss float64, replicas ...*server.Server) observed {
	t.Helper()
	all := observed{}
	highest := map[*server.Server]map[string]float64{}
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		for _, s := range replicas {
			if highest[s] == nil {
				highest[s] = map[string]float64{}
			}
			for _, metric := range []string{"jobs:rate:10s", "jobs", "shared:rate:10s", "shared"} {
				all.note(metric, sum(s, metric))
			}
			for _, metric := range []string{"jobs:total", "shared:total"} {
				got, err := sum(s, metric)()
				if err != nil {
					continue // note has counted as much
				}
				if got < highest[s][metric]-loss {
					t.Errorf("%s falls from %v to %v", metric, highest[s][metric], got)
				}
				highest[s][metric] = math.Max(highest[s][metric], got)
			}
		}
	}
	return all
}

func (o observed) note(metric string, read func() (float64, error)) {
	r := o[metric]
	if r == nil {
		r = &reading{low: math.Inf(1), high: math.Inf(-1)}
		o[metric] = r
	}
	v, err := read()
	if err != nil {
		r.failures, r.last = r.failures+1, err.Error()
		return
	}
	r.low, r.high = math.Min(r.low, v), math.Max(r.high, v)
}

// of returns the readings of one counter.
func (o observed) of(counter string) observed {
	some := maps.Clone(o)
	maps.DeleteFunc(some, func(metric string, _ *reading) bool { return !strings.HasPrefix(metric, counter) })
	return some
}

// steady requires that every rate is the clients' within a share, besides the samples that were late. A server
// that the machine didn't run says so: those answers, and how long they last, are the machine's.
func (l *load) steady(t *testing.T, when string, all observed) {
	t.Helper()
	for metric, r := range all {
		t.Logf("%s: %s between %.1f and %.1f, want %.0f; %d failures %s", when, metric, r.low, r.high, l.rate(), r.failures, r.last)
		if r.failures > 0 && !strings.Contains(r.last, "this process stood still") {
			t.Errorf("%s: %s could not be read %d times: %s", when, metric, r.failures, r.last)
		}
		if !l.near(metric, r.low, l.rate()) || !l.near(metric, r.high, l.rate()) {
			t.Errorf("%s: %s is between %.1f and %.1f, want %.0f within %.0f %%, and %d samples that were late",
				when, metric, r.low, r.high, l.rate(), within*100, l.late.Load())
		}
	}
}

// rate is what the clients send in a second.
func (l *load) rate() float64 { return float64(len(l.clients) * perSecond) }

// near reports whether the rate of a metric is the wanted one, as steady says.
func (l *load) near(metric string, rate, want float64) bool {
	return math.Abs(rate-want) <= l.margin(metric, want)
}

// margin is how far the rate of a metric may be off.
func (l *load) margin(metric string, want float64) float64 {
	window := 60.0
	if strings.HasSuffix(metric, ":10s") {
		window = 10
	}
	return within*want + float64(l.late.Load())/window
}

// sum reads the sum of an external metric's items.
func sum(s *server.Server, metric string) func() (float64, error) {
	return func() (float64, error) {
		items, err := s.External(metric)
		total := 0.0
		for _, item := range items {
			total += item.Value
		}
		return total, err
	}
}

// wantTotals requires that every replica has the same totals, exactly.
func wantTotals(t *testing.T, m mesh, want map[string]float64) {
	t.Helper()
	server.Within(t, func() string {
		var wrong []string
		for i, s := range m {
			for metric, value := range want {
				if got, err := sum(s, metric)(); err != nil || got != value {
					wrong = append(wrong, fmt.Sprintf("replica %d: %s is %v (%v), want %v", i, metric, got, err, value))
				}
			}
		}
		return strings.Join(wrong, "\n")
	})
}

// applied is the number of samples that a replica has applied itself.
func applied(s *server.Server) (n float64) {
	for name, v := range s.Metrics() {
		if strings.HasPrefix(name, "sluice_samples_applied_total{") {
			n += v
		}
	}
	return n
}
