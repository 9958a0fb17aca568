package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// replicas are some origins, and the merged answers of the first.
type replicas struct {
	t      *testing.T
	tables []*fixture
	*Merged
	peers []*told
	mu    sync.Mutex // held while an origin receives, flushes, dies or restarts
}

// replicated runs a test with n origins in virtual time.
func replicated(t *testing.T, n int, test func(r *replicas)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := &replicas{t: t}
		for range n {
			f := newReplica(t).running()
			f.SetSeed.Store(1)
			r.tables = append(r.tables, f)
			time.Sleep(377 * time.Millisecond) // so their ticks begin at different moments
		}
		r.Merged = NewMerged(r.tables[0].Table)
		var shadows []*Shadow
		for i, f := range r.tables[1:] {
			p := newTold(f, &r.mu)
			r.peers = append(r.peers, p)
			shadows = append(shadows, p.Shadow)
			time.Sleep(time.Duration(i*130) * time.Millisecond)
			go p.run(ctx)
		}
		r.SetShadows(shadows)
		// Off the ticks, rolls and flushes of all origins, by no multiple of 20 ms: which of two comes first
		// at one instant is chance.
		time.Sleep(2*time.Minute + 128*time.Millisecond)
		test(r)
		stop()
		time.Sleep(time.Second)
	})
}

// told is the shadow of another origin, as the replica package keeps it.
type told struct {
	*Shadow
	of    *fixture
	mu    *sync.Mutex // guards all but the shadow
	dead  bool        // the origin was killed
	clock []byte      // of the last flush
	names [][]byte    // of the blocks, as of the last flush
	state [][]byte
}

func newTold(f *fixture, mu *sync.Mutex) *told {
	s := NewShadow(f.config, slog.New(slog.DiscardHandler))
	must(f.t, s.Begin(f.AppendClock(nil)))
	return &told{Shadow: s, of: f, mu: mu}
}

// run flushes twice a second.
func (p *told) run(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
		p.step()
	}
}

func (p *told) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch silent := time.Since(p.HeardAt()); {
	case !p.dead:
		p.flush()
	case silent > time.Minute && silent <= time.Minute+500*time.Millisecond:
		p.LetRun(time.Now())
	}
}

// kill stops the origin. What it received since the last flush is lost.
func (p *told) kill() { p.silence(true) }

// silence sets whether the origin tells nothing more.
func (p *told) silence(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

// restart starts the first peer again, from what it flushed last.
func (r *replicas) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[0]
	f := newReplica(r.t)
	f.Clock.Uptime = func() window.Uptime { return window.Uptime{} } // the machine's is not virtual
	must(r.t, f.RestoreClock(p.clock))
	for i, state := range p.state {
		must(r.t, f.RestoreBlock(i, p.names[i], state, slices.Values([][]byte(nil))))
	}
	f.RestoreDone()
	f.Begin()
	f.running()
	for i, state := range p.state {
		must(r.t, p.ReplaceBlock(i, p.names[i], state))
	}
	r.tables[1], p.of, p.dead = f, f, false
}

func (p *told) flush() {
	p.of.Roll()
	p.clock, p.names, p.state = p.of.AppendClock(nil), nil, nil
	must(p.of.t, p.Advance(p.clock, 0))
	for i := range p.of.Blocks() {
		if delta := p.of.AppendDelta(nil, i); len(delta) > 0 {
			must(p.of.t, p.ApplyDelta(i, delta))
		}
		p.names, p.state = append(p.names, p.of.AppendBlockNames(nil, i)), append(p.state, p.of.AppendBlockState(nil, i))
	}
}

func (r *replicas) ask(asked string) string {
	points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
	return textOf(points, err, func(p metric.Point) string { return fmt.Sprintf("%s=%v", p.Object.Name, p.Value.Float64()) })
}

func (r *replicas) want(asked, want string) {
	r.t.Helper()
	if got := r.ask(asked); got != want {
		r.t.Errorf("%s: %s, want %s", asked, got, want)
	}
}

func (r *replicas) value(asked string) float64 {
	r.t.Helper()
	points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
	if err != nil || len(points) != 1 {
		r.t.Fatalf("%s: %v, %v", asked, points, err)
	}
	return points[0].Value.Float64()
}

// Of a client that moved when its origin died, windows over bins and members hold what the new origin
// received, as soon as the window began after the move.
func TestMergedWindowsOfADeadOriginRunOut(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[1].push("lat:100|ms|#pod:a,ns:ns", "users:x|s|#pod:a,ns:ns", "lat:100|ms|#pod:b,ns:ns")
		time.Sleep(time.Second)
		r.peers[0].kill()
		time.Sleep(5 * time.Second)
		r.want("lat:max:10s", "a=100 b=100") // time stands still
		r.tables[0].push("lat:5|ms|#pod:a,ns:ns", "users:y|s|#pod:a,ns:ns")
		r.want("lat:max:10s", "a=100 b=100")
		r.want("users:unique:10s", "a=2")
		time.Sleep(8 * time.Second)
		r.want("lat:max:10s", "a=5 b=100")
		r.want("users:unique:10s", "a=1")
		time.Sleep(2 * time.Minute)
		r.want("lat:count", "a=0 b=0")
	})
}

// A namespace's series answer before the cluster-wide ones, wherever they are.
func TestMergedExternal(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		external := func(namespace, asked string) string {
			points, err := r.External(metric.Query{Namespace: namespace, Expression: metric.ParseExpression(asked)})
			if err != nil {
				return err.Error()
			}
			var all []string
			for _, p := range points {
				all = append(all, fmt.Sprintf("%s %v", p.Labels, p.Value.Float64()))
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		r.tables[0].push("jobs:3|c|#q:1", "jobs:1|c|#q:2")
		r.tables[1].push("jobs:4|c|#q:1", "jobs:7|c|#q:3", "lag:2|ms|#q:1", "lag:4|ms|#q:2")
		r.tables[0].push("lag:6|ms|#q:1")
		time.Sleep(time.Second)
		if got, want := external("", "jobs:total"), "{q=1} 7, {q=2} 1, {q=3} 7"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := external("", "lag:mean"), "{} 4"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// A deletion removes the own series and hides those of shadows until the origin has deleted them too.
func TestMergedDelete(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("hits:3|c|#pod:a,ns:ns", "hits:1|c|#pod:b,ns:ns")
		r.tables[1].push("hits:4|c|#pod:a,ns:ns", "hits:2|c|#pod:c,ns:ns")
		time.Sleep(time.Second)
		r.want("hits:total", "a=7 b=1 c=2")
		if gone := r.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("hits")}); gone != 3 {
			t.Errorf("deleted %d, want 3", gone)
		}
		r.want("hits:total", `no series of "hits" for pods in "ns"; last seen 1s ago, deleted`)
		r.tables[1].push("hits:1|c|#pod:a,ns:ns") // before the origin hears of the deletion
		time.Sleep(time.Second)
		r.want("hits:total", `no series of "hits" for pods in "ns"; last seen 2s ago, deleted`)
		r.tables[1].Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("hits")})
		time.Sleep(time.Second)
		r.tables[1].push("hits:5|c|#pod:a,ns:ns")
		time.Sleep(time.Second)
		r.want("hits:total", "a=5")
	})
}

// Of twins, only those that match and are not hidden are read: one of two, too.
func TestMergedSelectsTwins(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		hits := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("hits:total")}
		hits.MatchLabels = func(l metric.Labels) bool { code, _ := l.Get("code"); return code == "500" }
		for _, f := range r.tables {
			f.push("hits:1|c|#pod:a,ns:ns,code:200", "hits:2|c|#pod:a,ns:ns,code:500", "hits:3|c|#pod:a,ns:ns,code:503")
		}
		time.Sleep(time.Second)
		r.want("hits:total", "a=12")
		if points, err := r.Objects(hits); err != nil || len(points) != 1 || points[0].Value.Float64() != 4 {
			t.Errorf("%v, %v; want 4", points, err)
		}
		if gone := r.Delete(hits); gone != 1 {
			t.Errorf("deleted %d, want 1", gone)
		}
		r.want("hits:total", "a=8")
		r.tables[0].push("hits:5|c|#pod:a,ns:ns,code:500")
		time.Sleep(time.Second)
		r.want("hits:total", "a=13")
	})
}

// Over a window, a gauge has the value that was set last, at any origin. The first value of an
// origin counts from the series' birth, although it is pushed again later.
func TestMergedGaugeOverAWindow(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("temp:7|g|#pod:a,ns:ns")
		time.Sleep(10 * time.Second)
		r.tables[1].push("temp:3|g|#pod:a,ns:ns")
		time.Sleep(30 * time.Second)
		r.tables[1].push("temp:3|g|#pod:a,ns:ns")
		time.Sleep(20 * time.Second)
		if got, want := r.value("temp:mean:1m"), (7*10+3*50)/60.0; math.Abs(got-want) > 0.1 {
			t.Errorf("the mean is %v, want %v", got, want)
		}
	})
}

// A client that comes back to a replica sets what that had last: its window ends with the value that the gauge has.
func TestMergedGaugeOfAClientThatCameBack(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("temp:5|g|#pod:a,ns:ns")
		for range 10 {
			time.Sleep(3 * time.Second)
			r.tables[1].push("temp:100|g|#pod:a,ns:ns")
		}
		for range 5 {
			time.Sleep(3 * time.Second)
			r.tables[0].push("temp:5|g|#pod:a,ns:ns")
		}
		r.want("temp:last", "a=5")
		r.want("temp:max:10s", "a=5")
		r.want("temp:max:1m", "a=100")
		// When it came back is known to one interval of its pushes.
		if got, want := r.value("temp:mean:1m"), (5*3+100*27+5*15)/45.0; math.Abs(got-want) > 95*3/45.0 {
			t.Errorf("the mean is %v, want %v", got, want)
		}
	})
}

// Over a window, a gauge that is only changed is the sum of the changes at all replicas at each moment; one that was
// set ends with what it is, with the changes of all.
func TestMergedGaugeChangesOverAWindow(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[1].push("jobs:+10|g|#pod:a,ns:ns", "jobs:100|g|#pod:b,ns:ns")
		time.Sleep(20 * time.Second)
		r.tables[0].push("jobs:+5|g|#pod:a,ns:ns", "jobs:+5|g|#pod:b,ns:ns")
		time.Sleep(3 * time.Second)
		r.tables[1].push("jobs:+1|g|#pod:b,ns:ns")
		time.Sleep(17 * time.Second)
		r.want("jobs:last", "a=15 b=106")
		r.want("jobs:max:10s", "a=15 b=106")
		r.want("jobs:min:10s", "a=15 b=106")
		r.want("jobs:min:1m", "a=10 b=100")
		if got := r.value("jobs:mean:1m"); math.Abs(got-12.5) > 0.2 {
			t.Errorf("the mean is %v, want 12.5", got)
		}
		r.tables[1].push("jobs:-5|g|#pod:a,ns:ns")
		time.Sleep(12 * time.Second)
		r.want("jobs:max:10s", "a=10 b=106")
	})
}

// A gauge that is set once and changed at two replicas since is read as one that got all changes.
func TestMergedGaugeIsChangedAtTwoReplicas(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[1].push("depth:50|g|#pod:a,ns:ns")
		time.Sleep(2 * time.Second)
		for i := range 50 {
			r.tables[1].push("depth:+10|g|#pod:a,ns:ns")
			time.Sleep(time.Second)
			r.tables[0].push("depth:-9|g|#pod:a,ns:ns")
			time.Sleep(time.Second)
			if i%10 != 9 {
				continue
			}
			at := float64(50 + i + 1)
			r.want("depth:last", fmt.Sprintf("a=%v", at))
			for asked, want := range map[string][2]float64{ // a flush of the other replica may be missing
				"depth:max:10s": {at - 1, at + 10}, "depth:min:10s": {at - 15, at}, "depth:mean:10s": {at - 8, at + 8}, "depth:max:1m": {at - 1, at + 10},
			} {
				if got := r.value(asked); got < want[0] || got > want[1] {
					t.Errorf("after %d changes, %s is %v, want %v", i+1, asked, got, want)
				}
			}
		}
		if got := r.value("depth:min:1m"); got < 50 {
			t.Errorf("the minimum is %v, and it was never below 50", got)
		}
	})
}

// The list of metrics is the union of all origins', within its limits.
func TestMergedListed(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("b:1|c|#pod:a,ns:ns", "d:1|c|#pod:a,ns:ns", "y:1|c")
		r.tables[1].push("a:1|c|#pod:a,ns:ns", "b:1|g|#pod:b,ns:ns", "x:1|c", "z:1|c")
		time.Sleep(time.Second)
		for limit, want := range map[int]string{9: "x y z pods/a pods/b pods/d", 2: "x y pods/a pods/b"} {
			var names []string
			for _, discovered := range r.Listed(limit) {
				names = append(names, strings.TrimPrefix(discovered.Resource+"/"+discovered.Name, "/"))
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("limit %d: %s, want %s", limit, got, want)
			}
		}
	})
}

// Origins may have an object's metric in different kinds: the older series decides at all of them.
func TestMergedKinds(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[1].push("n:4|c|#pod:a,ns:ns", "n:4|c|#pod:b,ns:ns")
		time.Sleep(5 * time.Second)
		r.tables[0].push("n:9|g|#pod:a,ns:ns", "n:7|g|#pod:c,ns:ns")
		time.Sleep(time.Second)
		r.want("n:total", "a=4 b=4")
		r.want("n:last", "c=7")
		r.want("n:count", "a=4 b=4")
	})
}

// While answers would be incomplete, there are none: with and without shadows, within a snapshot too.
func TestMergedGate(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("hits:3|c|#pod:a,ns:ns", "jobs:1|c")
		complete := true
		for _, m := range []*Merged{r.Merged, NewMerged(r.tables[0].Table)} {
			m.SetGate(func() (bool, string) { return complete, "the others are awaited" })
			snapshot := m.Begin()
			for range 2 {
				hits := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("hits")}
				jobs := metric.Query{Expression: metric.ParseExpression("jobs:total")}
				for i, read := range []func() ([]metric.Point, error){
					func() ([]metric.Point, error) { return m.Objects(hits) },
					func() ([]metric.Point, error) { return m.External(jobs) },
					func() ([]metric.Point, error) { return snapshot.Objects(hits) },
					func() ([]metric.Point, error) { return snapshot.External(jobs) },
				} {
					points, err := read()
					rejected := errors.Is(err, metric.ErrNotReady) && err.Error() == "the others are awaited"
					if rejected == complete || complete && (err != nil || len(points) != 1) {
						t.Errorf("complete %v: read %d: %v, %v", complete, i, points, err)
					}
				}
				complete = !complete
			}
		}
	})
}

// What an origin that is cut off counted lately stands, and answers are dated by what is known of it. Clients
// that move to another origin meanwhile don't count twice. One that has ended runs out.
func TestMergedOriginThatIsCutOff(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		date := func(asked string) time.Time {
			points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
			if err != nil || len(points) != 1 {
				r.t.Fatal(points, err)
			}
			return points[0].Time
		}
		moved := 0
		push := func(d time.Duration) {
			for range d / (100 * time.Millisecond) {
				for _, line := range []string{"hits:10|c|#pod:a,ns:ns", "lat:5|ms|@0.1|#pod:a,ns:ns", "users:x|s|#pod:a,ns:ns", "less:-10|c|#pod:a,ns:ns"} {
					r.push(0, line)
				}
				for _, line := range []string{"hits:10|c|#pod:a,ns:ns", "lat:7|ms|@0.1|#pod:a,ns:ns", "users:y|s|#pod:a,ns:ns", "only:10|c|#pod:b,ns:ns", "less:-10|c|#pod:a,ns:ns"} {
					r.push(1-moved, line)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		within := func(when, asked string, want float64) {
			r.t.Helper()
			points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
			if err != nil || len(points) != 1 || math.Abs(points[0].Value.Float64()-want) > 0.06*math.Abs(want) {
				r.t.Errorf("%s: %s is %v, %v, want %v", when, asked, points, err, want)
			}
		}
		push(80 * time.Second)
		if got := date("hits:rate:10s"); time.Since(got) > time.Millisecond {
			r.t.Errorf("an answer of all origins is dated %v", got)
		}
		cut := time.Now()
		r.peers[0].SetLives(true)
		r.peers[0].silence(true)
		for range 4 {
			for _, one := range []string{"hits:rate:10s", "hits:rate:1m", "lat:rate:10s"} {
				within("cut off", one, 200)
			}
			within("cut off", "hits:count:10s", 2000)
			within("cut off", "lat:sum:10s", 12000)
			within("cut off", "lat:mean:10s", 6)
			within("cut off", "users:unique:10s", 2)
			within("cut off", "only:rate:10s", 100)
			within("cut off", "less:rate:10s", -200)
			push(8 * time.Second)
		}
		for _, one := range []string{"hits:rate:10s", "lat:max:10s"} {
			if got := date(one); got.Sub(cut).Abs() > 600*time.Millisecond {
				r.t.Errorf("%s is dated %v, the link is cut since %v", one, got, cut)
			}
		}
		if got := date("hits:total"); got.Before(cut) {
			r.t.Errorf("the newest sample came at %v", got)
		}
		r.peers[0].SetLives(false)
		within("it has ended", "hits:rate:10s", 100)
		r.peers[0].SetLives(true)
		moved = 1
		push(15 * time.Second)
		within("its clients have moved", "hits:rate:10s", 200)
		r.peers[0].silence(false)
		moved = 0
		push(70 * time.Second)
		within("heard again", "hits:rate:10s", 200)
	})
}
