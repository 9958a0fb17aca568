// Package restart ends the real binary in all the usual ways, and requires that its state
// survives.
package restart

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Remove()
	os.Exit(code)
}

// perSecond is the number of increments that the pusher sends.
const perSecond = 200

// pusher sends increments of "jobs" at an even pace until its context ends, whether anybody listens
// or not.
type pusher struct {
	sent atomic.Int64
	// longest is the longest time between two increments, in nanoseconds.
	longest atomic.Int64
	done    chan struct{}
}

func push(ctx context.Context, t *testing.T, address string) *pusher {
	t.Helper()
	conn, err := net.Dial("udp", address)
	must(t, err)
	p := &pusher{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer conn.Close()
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, _ = conn.Write([]byte("jobs:1|c")) // refused while the server is down: that is the test
				p.sent.Add(1)
				now := time.Now()
				p.longest.Store(max(p.longest.Load(), int64(now.Sub(last))))
				last = now
			}
		}
	}()
	return p
}

func (p *pusher) stop(cancel context.CancelFunc) {
	cancel()
	<-p.done
}

func TestKill(t *testing.T) {
	t.Parallel()
	for tries := 1; ; tries++ {
		complaint, even := kill(t)
		if complaint == "" {
			return
		}
		if even || tries == 5 {
			t.Fatal(complaint)
		}
	}
}

// kill is one run. It returns a complaint about a rate, and whether the pusher kept its pace: if it did
// not, the machine was too slow to judge rates.
func kill(t *testing.T) (complaint string, even bool) {
	s := server.New(t)
	s.Start()
	ctx, cancel := context.WithCancel(context.Background())
	p := push(ctx, t, s.UDP)
	defer p.stop(cancel)

	time.Sleep(10 * time.Second) // a rate is divided by the shortest window at least: before that it rises
	keptPace := func() bool { return time.Duration(p.longest.Load()) < 500*time.Millisecond }
	mustSurvive := 0.0 // applied by now, and killed more than a second later
	server.Within(t, func() string {
		if mustSurvive = s.Sum("jobs:total"); mustSurvive < 8*perSecond {
			return fmt.Sprintf("total %v after 10 s of %d/s", mustSurvive, perSecond)
		}
		return ""
	})
	time.Sleep(1100 * time.Millisecond)
	sent := p.sent.Load() + perSecond/10
	killed := time.Now()
	s.Kill()
	s.Start()
	t.Logf("down for %s", time.Since(killed).Round(time.Millisecond))

	// Read at once, and go on reading: an autoscaler acts on the first answer.
	after := s.Sum("jobs:total")
	if !(after >= mustSurvive) {
		t.Errorf("total %v after the restart, want at least %v: that was applied more than 1 s before the kill", after, mustSurvive)
	}
	if limit := float64(sent + p.sent.Load()); after > limit {
		t.Errorf("total %v after the restart, but only %v were sent", after, limit)
	}
	for _, metric := range []string{"jobs:rate:10s", "jobs:rate:1m"} {
		for range 8 {
			got := s.Sum(metric)
			t.Logf("%s %v after the kill: %v", metric, time.Since(killed).Round(time.Millisecond), got)
			if !(got > 0.8*perSecond && got < 1.2*perSecond) {
				complaint = fmt.Sprintf("%s is %v after the restart: want about %d, neither a dip nor a spike", metric, got, perSecond)
			}
			time.Sleep(250 * time.Millisecond)
		}
	}
	return complaint, keptPace()
}

func TestStopLosesNothing(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	ctx, cancel := context.WithCancel(context.Background())
	p := push(ctx, t, s.UDP)
	time.Sleep(2 * time.Second)
	p.stop(cancel)
	sent := float64(p.sent.Load())
	server.Eventually(t, func() string {
		if got := s.Sum("jobs:total"); got != sent {
			return fmt.Sprintf("total %v before the stop, want %v", got, sent)
		}
		return ""
	})
	s.Stop()
	s.Start()
	if got := s.Sum("jobs:total"); got != sent {
		t.Errorf("total %v after a clean restart, want %v", got, sent)
	}
}

func TestSyncedPushSurvivesAtOnce(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	for i := range 5 {
		s.PutSynced("e2e", "depth", float64(i))
		s.Kill()
		s.Start()
		if got := s.Sum("depth"); got != float64(i) || math.IsNaN(got) {
			t.Fatalf("depth is %v after a kill right behind a synced push of %d", got, i)
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
