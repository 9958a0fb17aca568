package replica

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// polled are two replicas of which each receives 100/s of one counter. Both are read every 200 ms, as
// autoscalers would: a replica that isn't ready answers nothing.
type polled struct {
	*fabric
	t       *testing.T
	all     []*process
	to      []int // the replica that a client pushes to
	frozen  int   // the replica that stands still; -1: none
	waiting int   // pushes that wait in the kernel of that one
	ticks   int
	seen    map[string]*span
}

// span are the values that readers saw.
type span struct {
	low, high float64
	none      int // answers without a value
}

func newPolled(t *testing.T, seed uint64) *polled {
	f := newFabric(rand.New(rand.NewPCG(seed, 5)), time.Now)
	p := &polled{fabric: f, t: t, to: []int{0, 1}, frozen: -1, ticks: int(seed), seen: map[string]*span{}}
	p.all = startProcesses(t, f, replicated(10*time.Second, time.Minute), 2)
	p.run(90 * time.Second)
	clear(p.seen)
	return p
}

func (p *polled) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, to := range p.to {
			switch {
			case to == p.frozen:
				p.waiting++
			case p.all[to].replica != nil:
				p.push(to, 1)
			}
		}
		p.pass()
		if p.ticks++; p.ticks%2 == 0 {
			p.read()
		}
	}
}

func (p *polled) push(to int, times int64) {
	p.all[to].push(simulated{name: "stream", kind: metric.Counter, op: metric.Add, whole: 10 * times})
}

// pass lets a tenth of a second pass.
func (p *polled) pass() {
	running := p.all
	if p.frozen >= 0 {
		running = []*process{p.all[1-p.frozen]}
	}
	passTables(p.fabric, running, p.ticks)
}

// read reads as autoscalers do.
func (p *polled) read() {
	for i, one := range p.all {
		if one.replica == nil || i == p.frozen {
			continue
		}
		for _, window := range []string{"10s", "1m"} {
			name := fmt.Sprintf("%d %s", i, window)
			s := p.seen[name]
			if s == nil {
				s = &span{low: math.Inf(1), high: math.Inf(-1)}
				p.seen[name] = s
			}
			value, there := one.read("stream:rate:" + window)[podName(0)]
			if ready, _ := one.replica.Answers(); !ready || !there {
				s.none++
				continue
			}
			s.low, s.high = min(s.low, value.Float64()), max(s.high, value.Float64())
		}
	}
}

// freeze makes a replica stand still for a while. What arrives there meanwhile waits.
func (p *polled) freeze(i int, d time.Duration) {
	p.frozen, p.all[i].port.frozen = i, true
	p.run(d)
	p.frozen, p.all[i].port.frozen = -1, false
	// The first reader comes before the first tick of the process and before the first message.
	p.read()
	p.push(i, int64(p.waiting))
	p.waiting = 0
}

func (p *polled) within(share float64) {
	p.t.Helper()
	for name, s := range p.seen {
		if s.low < 200*(1-share) || s.high > 200*(1+share) {
			p.t.Errorf("replica %s reads %.1f to %.1f of 200", name, s.low, s.high)
		}
	}
}

func eachPhase(t *testing.T, test func(*polled)) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newPolled(t, seed)) })
		})
	}
}

// A replica that stood still while its clients went to the other answers nothing until it has heard
// what that one received.
func TestAFrozenReplicaAnswersNothing(t *testing.T) {
	eachPhase(t, func(p *polled) {
		for i := range 2 {
			p.to[i] = 1 - i
			p.to[1-i] = 1 - i
			p.freeze(i, 20*time.Second)
			clear(p.seen) // of the other one, which answers all the time
			p.read()
			p.run(20 * time.Second)
			p.within(0.1)
			p.to[i], p.to[1-i] = 0, 1
			p.run(2 * time.Minute)
		}
	})
}
