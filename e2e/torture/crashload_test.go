package torture

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

const jobsPerSecond = 500

// crashLoad pushes until it is stopped or the server dies: StatsD increments at an even pace, and
// values over HTTP one after the other, each acknowledged when it is on disk.
type crashLoad struct {
	withPushes  bool // over HTTP
	end         context.CancelFunc
	pushers     sync.WaitGroup
	base        int64        // of jobs
	sent        atomic.Int64 // increments of jobs
	paid, depth acknowledgedPushes
}

// acknowledgedPushes are values that rise by one: the highest that was tried, and the highest that
// was acknowledged.
type acknowledgedPushes struct{ tried, acknowledged, begun atomic.Int64 }

func startCrashLoad(t *testing.T, s *server.Server, from crashBooks, withPushes bool) *crashLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	load := &crashLoad{end: cancel, base: from.jobs, withPushes: withPushes}
	t.Cleanup(cancel)
	conn, err := net.Dial("udp", s.UDP)
	must(t, err, "open a socket")
	load.pushers.Go(func() { load.sendJobs(ctx, conn) })
	load.paid.beginAt(from.paid)
	load.depth.beginAt(from.depth)
	if !withPushes {
		return load
	}
	load.pushers.Go(func() { load.paid.push(ctx, s, http.MethodPost, "paid") })
	load.pushers.Go(func() { load.depth.push(ctx, s, http.MethodPut, "depth") })
	return load
}

func (l *crashLoad) sendJobs(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	tick := time.NewTicker(time.Second / jobsPerSecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.sent.Add(1)
			_, _ = conn.Write([]byte("jobs:1|c")) // refused while the server is down
		}
	}
}

func (a *acknowledgedPushes) beginAt(last int64) {
	a.tried.Store(last)
	a.acknowledged.Store(last)
	a.begun.Store(last)
}

// push sends one value after the other. It ends at the first that is not acknowledged, which may
// or may not be there.
func (a *acknowledgedPushes) push(ctx context.Context, s *server.Server, method, metric string) {
	for ctx.Err() == nil {
		next := a.tried.Add(1)
		value := next
		if method == http.MethodPost {
			value = 1
		}
		if push(s, method, metric+"?sync=true", value) != nil {
			return
		}
		a.acknowledged.Store(next)
	}
}

// awaitPersisted returns a total of jobs that the server reports on disk: a flush that began after
// the read is complete.
func (l *crashLoad) awaitPersisted(t *testing.T, s *server.Server) int64 {
	t.Helper()
	total := max(int64(s.Sum("jobs:total")), l.base)
	read := time.Now()
	server.Within(t, func() string {
		asked := time.Now()
		lag := time.Duration(s.Metrics()["sluice_store_lag_seconds"] * float64(time.Second))
		if asked.Add(-lag).Before(read) {
			return "the store is behind for " + lag.String()
		}
		return ""
	})
	return total
}

// stop returns when nothing is in flight.
func (l *crashLoad) stop() {
	l.end()
	l.pushers.Wait()
}

// acknowledged is the number of acknowledged pushes.
func (l *crashLoad) acknowledged() (sum int) {
	for _, a := range []*acknowledgedPushes{&l.paid, &l.depth} {
		sum += int(a.acknowledged.Load() - a.begun.Load())
	}
	return sum
}
