package restart

import (
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// everyKind pushes a thousand lines a second to an agent: two counters, one with fractions, a timer, a set and a gauge that is
// moved. Nobody else pushes there, so each line's effect is known.
type everyKind struct {
	rounds atomic.Int64
	end    chan struct{}
	done   chan struct{}
}

func pushEveryKind(t *testing.T, address string) *everyKind {
	t.Helper()
	conn, err := net.Dial("udp", address)
	must(t, err)
	p := &everyKind{end: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer conn.Close()
		began, each := time.Now(), time.NewTicker(5*time.Millisecond)
		defer each.Stop()
		for now := began; ; {
			if n := p.rounds.Load(); time.Duration(n)*5*time.Millisecond > now.Sub(began) {
				select {
				case <-p.end:
					return
				case now = <-each.C:
				}
				continue
			}
			n := p.rounds.Load()
			lines := fmt.Sprintf("jobs:1|c|#namespace:e2e\nparts:0.25|c|#namespace:e2e\ntook:%d|ms|#namespace:e2e\nusers:%d|s|#namespace:e2e\nopen:+1|g|#namespace:e2e",
				n%100, n%500)
			if _, err := conn.Write([]byte(lines)); err != nil {
				t.Errorf("after %d rounds: %v", n, err)
				return
			}
			p.rounds.Add(1)
		}
	}()
	return p
}

func (p *everyKind) stop() int64 {
	close(p.end)
	<-p.done
	return p.rounds.Load()
}

// tookSum is the sum of the timer's observations.
func tookSum(rounds int64) (sum float64) {
	for n := range rounds {
		sum += float64(n % 100)
	}
	return sum
}

// held waits until an agent holds nothing that is not on the server's disk.
func held(t *testing.T, a *server.Agent) {
	t.Helper()
	server.Eventually(t, func() string {
		m, err := a.Metrics()
		if err != nil {
			return err.Error()
		}
		if left := m["sluice_agent_samples_held"]; left != 0 {
			return fmt.Sprintf("the agent holds %v samples", left)
		}
		return ""
	})
}

// The only server is killed again and again, while an agent receives: each sample counts once, of every kind, and none is
// lost.
func TestAgentsLoseNothingWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	s := server.New(t, "--windows", "10s,1h") // however long it takes, all is in a window
	s.WithAgents()
	s.Start()
	a := s.NewAgent("node-1")
	a.Start()
	p := pushEveryKind(t, a.UDP)
	for i := range 4 {
		time.Sleep(1500*time.Millisecond + time.Duration(i)*130*time.Millisecond)
		s.Kill()
		time.Sleep(time.Duration(i) * 700 * time.Millisecond)
		s.Start()
	}
	time.Sleep(time.Second)
	rounds := p.stop()
	held(t, a)
	for metric, want := range map[string]float64{
		"jobs:total": float64(rounds), "parts:total": float64(rounds) / 4, "took:count:1h": float64(rounds), "open": float64(rounds),
	} {
		if got := s.Sum(metric); got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	for metric, want := range map[string]float64{"users:unique:1h": 500, "took:sum:1h": tookSum(rounds)} {
		if got := s.Sum(metric); math.Abs(got-want) > want*0.03 {
			t.Errorf("%s is %v, want %v within 3 %%", metric, got, want)
		}
	}
	m, err := a.Metrics()
	must(t, err)
	if received := m.Of("sluice_samples_received_total", "statsd_udp", ""); received != float64(5*rounds) || m["sluice_agent_samples_acknowledged_total"] != received {
		t.Errorf("the agent received %v of %d samples, %v are acknowledged", received, 5*rounds, m["sluice_agent_samples_acknowledged_total"])
	}
	a.Stop()
	s.Stop()
}

// An agent that is stopped tells all before it ends, also what waits for a server that is being restarted.
func TestAgentTellsAllBeforeItEnds(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.WithAgents()
	a := s.NewAgent("node-1")
	a.Start()
	p := pushEveryKind(t, a.UDP)
	time.Sleep(2 * time.Second) // no server yet
	s.Start()
	rounds := p.stop()
	a.Stop()
	if got := s.Sum("jobs:total"); got != float64(rounds) {
		t.Errorf("jobs:total is %v, want %d", got, rounds)
	}
	s.Stop()
}
