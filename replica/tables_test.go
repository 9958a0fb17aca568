package replica

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

var counted = []string{"a", "b", "c"}

// TestSimulationOfTables runs real tables and shadows. Whenever it is quiet, each replica answers
// like one table that got the samples of all.
func TestSimulationOfTables(t *testing.T) {
	eachSeed(t, 1, func(t *testing.T, seed uint64) { simulateTables(t, seed) })
}

func simulateTables(t *testing.T, seed uint64) *fabric {
	rng := rand.New(rand.NewPCG(seed, 2))
	f := newFabric(rng, time.Now)
	r := &tables{t: t, rng: rng, fabric: f, doomed: map[int]int64{}, highest: map[*process]int64{}, groups: newGroupHistories()}
	r.all = startProcesses(t, f, replicated(10*time.Second, time.Hour), 2+rng.IntN(2)) // an hour holds all of it
	r.pass(30)                                                                         // until all hash members with one seed
	r.begin()
	for range 2 {
		r.settle()
		r.trouble()
		r.calm()
		r.check()
	}
	return f
}

// tables is a simulation of processes with tables.
type tables struct {
	t   *testing.T
	rng *rand.Rand
	*fabric
	all     []*process
	ticks   int
	samples int

	shifters [3]int         // bits of the processes that shift gauge "mixed" of a pod
	clients  [3]int64       // running totals of clients that each push to any process
	doomed   map[int]int64  // totals of the metric that is deleted, by pod
	deleted  *deletedSeries // in this trouble; nil: none
	groups   groupHistories

	highest map[*process]int64 // total of a
	lost    int64              // of a, by kills
}

// deletedSeries are those of a pod that a process deleted, which may be killed before its flush.
type deletedSeries struct {
	pod     int
	at      time.Time
	by      *process
	flushed int  // number of the flush that has it
	lost    bool // unless it was killed before
}

func (r *tables) pass(ticks int) {
	for range ticks {
		passTables(r.fabric, r.all, r.ticks)
		r.ticks++
	}
}

// live is a random live process, or nil.
func (r *tables) live() *process {
	if p := r.all[r.rng.IntN(len(r.all))]; p.replica != nil {
		return p
	}
	return nil
}

func (r *tables) push(p *process, s simulated) {
	if s.kind == metric.Gauge {
		time.Sleep(2 * time.Millisecond) // so there is one order
	}
	r.samples++
	s.order = r.samples
	p.push(s)
}

// begin starts the running totals of clients.
func (r *tables) begin() {
	for pod := range r.clients {
		r.clients[pod] = int64(r.rng.IntN(100))
		r.accumulate(r.live(), pod, 0)
	}
	r.pass(10)
}

func (r *tables) accumulate(p *process, pod int, growth int64) {
	r.clients[pod] += growth
	s := simulated{name: "client", pod: pod, kind: metric.Counter, op: metric.Accumulate, whole: r.clients[pod]}
	s.apply(r.t, p.writer)
}

// settle does what is exact only if the others hear of it: a gauge is set, and shifted at some
// processes, which go on with that. The others keep their shifts of the value before. Then settle
// begins again the series that will be deleted.
func (r *tables) settle() {
	for pod := range 3 {
		r.push(r.live(), simulated{name: "mixed", pod: pod, kind: metric.Gauge, op: metric.Assign, whole: int64(r.rng.IntN(100))})
	}
	r.pass(20)
	for pod := range 3 {
		r.shifters[pod] = r.rng.IntN(1 << len(r.all))
		for i, p := range r.all {
			if r.shifters[pod]>>i&1 != 0 {
				r.push(p, simulated{name: "mixed", pod: pod, kind: metric.Gauge, op: metric.Shift, whole: int64(1 + i)})
			}
			s := simulated{name: "doomed", pod: pod, kind: metric.Counter, op: metric.Add, whole: int64(1 + r.rng.IntN(9))}
			s.apply(r.t, p.writer)
			r.doomed[pod] += s.whole
		}
	}
	r.pass(20)
	r.check()
}

// trouble is some seconds of everything at once.
func (r *tables) trouble() {
	r.drop, r.double, r.late = r.rng.Float64()*0.3, r.rng.Float64()*0.2, r.rng.Float64()*0.4
	r.delay = time.Duration(1+r.rng.IntN(2000)) * time.Millisecond
	deleteAt := r.rng.IntN(150)
	for tick := range 120 {
		if tick >= deleteAt && r.deleted == nil {
			r.delete()
		}
		i := r.rng.IntN(len(r.all))
		p := r.all[i]
		switch {
		case r.rng.IntN(50) > 0 && p.replica != nil:
			r.pushSome(i)
		case p.replica == nil && r.rng.IntN(50) == 0:
			startProcess(r.t, r.fabric, p)
		case p.replica != nil:
			r.kill(p)
		}
		r.pass(1)
		r.totals()
	}
}

// pushSome pushes to a process.
func (r *tables) pushSome(i int) {
	p := r.all[i]
	for range r.rng.IntN(20) {
		if s := randomSample(r.rng); s.name != "mixed" || r.shifters[s.pod]>>i&1 != 0 {
			r.push(p, s)
		}
	}
	if pod := r.rng.IntN(30); pod < len(r.clients) {
		r.accumulate(p, pod, int64(r.rng.IntN(20)))
	}
	if r.rng.IntN(8) == 0 {
		r.changeGroup(p)
	}
}

func (r *tables) kill(p *process) {
	p.kill()
	// Followers may have read a whole block after the last flush, and keep it until p is back.
	r.lost += p.lost("a")
	delete(r.highest, p)
	r.groups.killed(p)
	if d := r.deleted; d != nil && d.by == p && p.flushed < d.flushed {
		d.lost = true
	}
}

// delete deletes the series of a pod.
func (r *tables) delete() {
	p := r.live()
	if p == nil {
		return
	}
	r.deleted = &deletedSeries{pod: r.rng.IntN(3), at: time.Now(), by: p, flushed: p.flushed + 1}
	s := deletion.Selector{Resource: "pods", Namespace: "ns", Object: podName(r.deleted.pod), Name: "doomed"}
	p.merged.Delete(s.Query())
	p.deleted.Add(&s)
}

// totals checks that no total falls.
func (r *tables) totals() {
	for _, p := range r.all {
		if p.replica == nil {
			continue
		}
		got := p.total("a")
		if got+r.lost < r.highest[p] {
			r.t.Fatalf("%s: the total of a fell from %d to %d; lost %d", p.name, r.highest[p], got, r.lost)
		}
		r.highest[p] = max(r.highest[p], got)
	}
}

// calm starts all processes and lets messages arrive.
func (r *tables) calm() {
	r.drop, r.double, r.late = 0, 0, 0
	for _, p := range r.all {
		if p.replica == nil {
			startProcess(r.t, r.fabric, p)
		}
	}
	r.pass(60)
	for pod := range r.clients {
		r.accumulate(r.live(), pod, 1)
	}
	r.pass(20)
}

// check compares all replicas with the model.
func (r *tables) check() {
	merged := union(r.t, r.all)
	for _, expression := range exactly {
		want := readFrom(merged, expression)
		for _, p := range r.all {
			got := p.read(expression)
			if len(got) != len(want) {
				r.wrong(p, expression, got, want)
			}
			for pod := range want {
				if v, w := got[pod].Float64(), want[pod].Float64(); math.Abs(v-w) > 1e-9*math.Abs(w) {
					r.wrong(p, expression, got, want)
				}
			}
		}
	}
	r.agree("free:last")
	clients := map[string]int64{}
	for pod := range r.clients {
		clients[podName(pod)] = r.clients[pod]
	}
	r.equal("client:total", clients)
	r.checkDoomed()
	r.checkGroups()
}

// checkDoomed checks that what was deleted is gone everywhere, unless the deletion was lost: then it
// is gone or there everywhere.
func (r *tables) checkDoomed() {
	if d := r.deleted; d != nil {
		if _, there := r.all[0].read("doomed:total")[podName(d.pod)]; !there || !d.lost {
			delete(r.doomed, d.pod)
		}
		r.deleted = nil
	}
	doomed := map[string]int64{}
	for pod, total := range r.doomed {
		doomed[podName(pod)] = total
	}
	r.equal("doomed:total", doomed)
}

// agree checks that all replicas answer alike.
func (r *tables) agree(expression string) {
	want := r.all[0].read(expression)
	for _, p := range r.all {
		if got := p.read(expression); !maps.Equal(got, want) {
			r.wrong(p, expression, got, want)
		}
	}
}

// equal checks that all replicas answer with these numbers.
func (r *tables) equal(expression string, want map[string]int64) {
	numbers := map[string]metric.Number{}
	for pod, n := range want {
		numbers[pod] = metric.Int(n)
	}
	for _, p := range r.all {
		if got := p.read(expression); !maps.Equal(got, numbers) {
			r.wrong(p, expression, got, numbers)
		}
	}
}

func (r *tables) wrong(p *process, expression string, got, want map[string]metric.Number) {
	r.t.Helper()
	r.t.Fatalf("tick %d: %s answers %v for %s, want %v; %+v", r.ticks, p.name, got, expression, want, p.replica.Origins())
}
