package replica

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// polled are two replicas of which each has a client that pushes 100/s: of "stream", which both push, and of
// "own", with an object of each. Both are read every 200 ms, as autoscalers would: a replica that isn't ready
// answers nothing.
type polled struct {
	*fabric
	t       *testing.T
	all     []*process
	to      []int // the replica that a client pushes to
	frozen  int   // the replica that stands still; -1: none
	waiting []int // pushes of a client that wait in the kernel of that one
	ticks   int
	seen    map[string]*span
	lives   bool // an API server says which replicas live
}

// span are the values that readers saw.
type span struct {
	low, high float64
	none      int // answers without a value
}

func newPolled(t *testing.T, seed uint64) *polled {
	f := newFabric(rand.New(rand.NewPCG(seed, 5)), time.Now)
	p := &polled{fabric: f, t: t, to: []int{0, 1}, waiting: []int{0, 0}, frozen: -1, lives: true, ticks: int(seed), seen: map[string]*span{}}
	for i := range 2 {
		one := &process{name: fmt.Sprint("origin-", i), config: replicated(10*time.Second, time.Minute)}
		one.lives = func(string) bool { return p.lives && p.ready(1-i) }
		startProcess(t, f, one)
		p.all = append(p.all, one)
	}
	p.run(90 * time.Second)
	clear(p.seen)
	return p
}

func (p *polled) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for client, to := range p.to {
			switch {
			case to == p.frozen:
				p.waiting[client]++
			case p.all[to].replica != nil:
				p.push(client, to, 1)
			}
		}
		p.pass()
		if p.ticks++; p.ticks%2 == 0 {
			p.read()
		}
	}
}

// ready reports whether a replica is ready for the API server, which doesn't notice that one is frozen.
func (p *polled) ready(i int) bool {
	r := p.all[i].replica
	if r == nil {
		return false
	}
	_, _ = r.Answers()
	return r.ready.Load()
}

func (p *polled) push(client, to, times int) {
	p.all[to].push(simulated{name: "stream", kind: metric.Counter, op: metric.Add, whole: int64(10 * times)})
	p.all[to].push(simulated{name: "own", pod: client, kind: metric.Counter, op: metric.Add, whole: int64(10 * times)})
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
	for i, process := range p.all {
		if process.replica == nil || i == p.frozen {
			continue
		}
		for _, expression := range []string{"stream:rate:10s", "stream:rate:1m", "own:rate:10s"} {
			name := fmt.Sprintf("%d %s", i, expression)
			s := p.seen[name]
			if s == nil {
				s = &span{low: math.Inf(1), high: math.Inf(-1)}
				p.seen[name] = s
			}
			values, sum := process.read(expression), 0.0
			for _, value := range values {
				sum += value.Float64()
			}
			if ready, _ := process.replica.Answers(); !ready || len(values) == 0 {
				s.none++
				continue
			}
			s.low, s.high = min(s.low, sum), max(s.high, sum)
		}
	}
}

// freeze makes a replica stand still for a while, and its client go to the other one a second later if it leaves.
// What arrives there meanwhile waits.
func (p *polled) freeze(i int, d time.Duration, leaves bool) {
	p.frozen, p.all[i].port.frozen = i, true
	if leaves {
		p.run(time.Second)
		p.to[i] = 1 - i
		d -= time.Second
	}
	p.run(d)
	p.frozen, p.all[i].port.frozen = -1, false
	// The first reader comes before the first tick of the process and before the first message.
	p.read()
	for client, times := range p.waiting {
		if times > 0 {
			p.push(client, i, times)
		}
	}
	clear(p.waiting)
}

// cut cuts the link between the replicas for a while, or its direction to the first one.
func (p *polled) cut(both bool, d time.Duration) {
	a, b := p.all[0].port, p.all[1].port
	p.fabric.cut[[2]*port{a, b}] = both
	p.fabric.cut[[2]*port{b, a}] = true
	p.run(d)
	clear(p.fabric.cut)
}

// comeBack starts a replica that has ended. Its clients come back once it is ready.
func (p *polled) comeBack(i int) {
	startProcess(p.t, p.fabric, p.all[i])
	for !p.ready(i) {
		p.run(time.Second)
	}
	p.to[i] = i
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
			p.freeze(i, 20*time.Second, false)
			clear(p.seen) // of the other one, which answers all the time
			p.read()
			p.run(20 * time.Second)
			p.within(0.1)
			p.to[i], p.to[1-i] = 0, 1
			p.run(2 * time.Minute)
		}
	})
}

// A replica that stands still again before it has heard the others still waits for those that lived
// at first.
func TestAReplicaThatStandsStillTwiceWaits(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.run(10 * time.Second)
	b, now := w.nodes[1].replica, w.at
	b.pulseTick(now)
	for range 2 {
		now = now.Add(20 * time.Second)
		b.pulseTick(now)
		if ok, why := b.caughtUp(now); ok || !strings.Contains(why, "has not heard replica a again") {
			t.Errorf("after %v: caught up: %t %s", now.Sub(w.at), ok, why)
		}
	}
}

// faults are the rows of the table in docs/replicas.md. In each, 200/s are pushed all the time, half to each
// replica. Rates are within a share of that at both replicas: in a cluster, whose API server says which
// replicas live, and outside.
var faults = []struct {
	name             string
	cluster, outside float64
	play             func(p *polled)
}{
	{"no fault", 0.05, 0.05, func(p *polled) { p.run(10 * time.Second) }},
	{"killed; its clients push to the other at once; back after 60 s", 0.1, 0.1, func(p *polled) {
		p.all[1].kill()
		p.to[1] = 0
		p.run(time.Minute)
		p.comeBack(1)
	}},
	{"ends in order: no endpoint for 10 s, then away for 60 s", 0.05, 0.05, func(p *polled) {
		p.to[1] = 0
		p.run(10 * time.Second)
		p.all[1].flush()
		p.all[1].replica.publisher.leave()
		p.fabric.deliver()
		p.run(transit)
		p.all[1].kill()
		p.run(time.Minute)
		p.comeBack(1)
	}},
	{"frozen for 3 s; its datagrams wait", 0.16, 0.25, func(p *polled) { p.freeze(1, 3*time.Second, false) }},
	{"frozen for 20 s; its clients push to the other a second later", 0.1, 0.1, func(p *polled) {
		p.freeze(1, 20*time.Second, true)
		p.run(20 * time.Second)
		p.to[1] = 1
	}},
	{"link cut for 5 s", 0.05, 0.35, func(p *polled) { p.cut(true, 5*time.Second) }},
	{"link cut for 60 s", 0.05, 0.55, func(p *polled) { p.cut(true, time.Minute) }},
	{"link cut for 290 s", 0.05, 0.55, func(p *polled) { p.cut(true, livesFor-10*time.Second) }},
	{"link cut one way for 60 s", 0.05, 0.55, func(p *polled) { p.cut(false, time.Minute) }},
	{"each message up to 0.5 s late", 0.1, 0.1, func(p *polled) {
		p.fabric.late, p.fabric.delay = 1, 500*time.Millisecond
		p.run(time.Minute)
		p.fabric.late = 0
	}},
}

// Faults as autoscalers see them. With -v, the test prints the table in docs/replicas.md.
func TestFaultsAsReadersSeeThem(t *testing.T) {
	phases := uint64(3)
	if testing.Short() {
		phases = 1
	}
	for _, fault := range faults {
		for place, within := range map[string]float64{"cluster": fault.cluster, "outside": fault.outside} {
			t.Run(fault.name+"/"+place, func(t *testing.T) {
				t.Parallel()
				all := map[string]*span{}
				for phase := range phases {
					synctest.Test(t, func(t *testing.T) {
						p := newPolled(t, phase)
						p.lives, p.seen = place == "cluster", all
						fault.play(p)
						p.run(65 * time.Second)
						p.within(within)
					})
				}
				for _, window := range []string{"10s", "1m"} {
					s, other := all["0 stream:rate:"+window], all["1 stream:rate:"+window]
					t.Logf("%s, %s: rate:%s: %.0f to %.0f; the one with the fault %.0f to %.0f, and %d times 503",
						fault.name, place, window, s.low, s.high, other.low, other.high, other.none)
				}
			})
		}
	}
}
