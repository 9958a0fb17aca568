package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

// A replica that lost its disk gets its former epoch back, and shows it as the others do.
func TestLostDiskComesBackFromAnotherReplica(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a := w.nodes[0]
	for range 20 {
		w.push(a)
	}
	w.run(2 * time.Second)
	want := w.applied()
	a.kill()
	a.disk = nil
	w.run(5 * time.Second)
	a.start()
	for i := 0; ; i++ {
		w.run(100 * time.Millisecond)
		if ready, _ := a.replica.Ready(); ready {
			break
		}
		if i > 60 {
			t.Fatal("not ready after six seconds")
		}
	}
	w.agree(want)
	if _, detail := a.replica.Ready(); !strings.Contains(detail, "a came back without its former state") {
		t.Error(detail)
	}
	a.table.add(0, 0, 7)
	w.run(2 * time.Second)
	w.agree(want + 7)
}

// A replica that starts while another is away gets the state of that, stands and runs out with it.
func TestStartWhileAnotherIsAway(t *testing.T) {
	w := newWorld(t, 2, "a", "b", "c")
	for range 100 {
		w.push(w.nodes[w.rng.IntN(3)])
		w.run(20 * time.Millisecond)
	}
	w.nodes[1].table.add(500, 0, 3) // many blocks
	w.run(2 * time.Second)
	want := w.applied()
	w.nodes[1].kill()
	w.run(30 * time.Second)
	w.nodes[2].kill()
	w.run(time.Second)
	w.nodes[2].start()
	c := w.nodes[2]
	shown := func() *modelShadow {
		if f := c.replica.origins.find(originKey{"b", w.nodes[1].epoch.id}); f != nil && f.shown != nil {
			return f.shown.(*modelShadow)
		}
		return nil
	}
	for range 60 {
		w.run(100 * time.Millisecond)
		if s := shown(); s != nil && s.total() != w.nodes[1].table.total() {
			t.Fatalf("shown with %d of %d", s.total(), w.nodes[1].table.total())
		}
		if ready, _ := c.replica.Ready(); ready {
			w.agree(want)
		}
	}
	_, detail := c.replica.Ready()
	if !strings.Contains(detail, "b stands still for 37s") {
		t.Error(detail)
	}
	if away := c.replica.Away(); len(away) != 1 || !strings.HasPrefix(away[0], "replica b has not been heard for 37s: ") {
		t.Errorf("away: %q", away)
	}
	if shown().ran {
		t.Error("the windows run out early")
	}
	w.run(24 * time.Second)
	if !shown().ran {
		t.Error("the windows do not run out a minute after the origin was heard last")
	}
	w.nodes[1].start()
	for range 50 {
		w.run(100 * time.Millisecond)
		if ready, _ := w.nodes[1].replica.Ready(); ready {
			w.agree(want)
		} else if w.nodes[0].total() != want || c.total() != want {
			t.Fatalf("a answers %d, c %d, want %d", w.nodes[0].total(), c.total(), want)
		}
	}
	w.push(w.nodes[1])
	w.run(time.Second)
	w.agree(w.applied())
}

// The shadow of an origin that doesn't come back ends everywhere, and nobody brings it back.
func TestRelayedOriginEnds(t *testing.T) {
	w := newWorld(t, 3, "a", "b", "c")
	w.push(w.nodes[1])
	w.run(2 * time.Second)
	w.nodes[1].kill()
	w.run(10 * time.Second)
	w.nodes[2].kill()
	w.nodes[2].start()
	w.run(10 * time.Second)
	w.agree(w.applied())
	w.nodes[0].shown[0].(*modelShadow).blocks = nil // expired
	for range 30 {
		w.run(10 * time.Second)
		if len(w.nodes[2].shown) == 2 {
			w.nodes[2].replica.origins.find(originKey{"b", w.nodes[1].epoch.id}).shown.(*modelShadow).blocks = nil
		}
	}
	for _, n := range []*node{w.nodes[0], w.nodes[2]} {
		if got := len(n.replica.Origins()); got != 1 {
			t.Errorf("%s has %d other origins: %v", n.name, got, n.replica.Origins())
		}
	}
}

// A restarted origin may have fewer blocks. A replica that did not hear of it drops the rest too.
func TestRelayOfFewerBlocks(t *testing.T) {
	w := newWorld(t, 5, "a", "b", "c")
	a, c := w.nodes[0], w.nodes[2]
	a.table.add(0, 0, 1)
	w.run(2 * time.Second)
	before := a.disk
	a.table.add(9, 0, 5)
	w.run(2 * time.Second)
	for _, n := range w.nodes[:2] {
		w.cut[[2]*port{n.port, c.port}], w.cut[[2]*port{c.port, n.port}] = true, true
	}
	a.kill()
	a.disk = before
	a.start()
	w.cut[[2]*port{a.port, c.port}] = true
	w.run(3 * time.Second)
	a.kill()
	clear(w.cut)
	w.run(10 * time.Second)
	w.agree(1)
}

// The replica that relays a state ends before all of it has come. A part is shown once it is all that the others
// have.
func TestRelayEndsHalfway(t *testing.T) {
	w := newWorld(t, 7, "a", "b", "d")
	a, b, d := w.nodes[0], w.nodes[1], w.nodes[2]
	w.run(2 * time.Second)
	d.table.add(0, 0, 1) // a delta, so a and b have one version of it
	w.run(2 * time.Second)
	w.separate(a.port)
	d.table.add(1, 0, 2) // b alone gets this
	w.run(2 * time.Second)
	d.kill()
	w.run(2 * standsAfter)
	w.nodes = []*node{a, newNode(t, w.fabric, "c")}
	w.separate(a.port)
	relays, to := b.replica, b.replica.subjects.of(stateOf, "b", "c")
	follower := relays.origins.find(originKey{"d", d.epoch.id})
	b.flush()
	w.run(50 * time.Millisecond)
	relays.relay.at = time.Time{}
	relays.relayStep(w.at)
	for _, block := range []int{-1, 0} {
		w.run(50 * time.Millisecond)
		relays.server.sendRelayed(to, relayedBlock{follower, block})
	}
	w.run(50 * time.Millisecond)
	if f := w.nodes[1].replica.origins.find(follower.key); f.pull == nil || len(f.pull.missing) != 1 {
		t.Fatalf("reads %+v", f.pull)
	}
	b.kill()
	clear(w.cut)
	w.run(10 * time.Second)
	w.agree(1)
}

// A whole block waits for the end of its flush when the origin falls silent, and another replica relays an
// older one. Once the origin is heard again, the whole block is applied at once.
func TestRelayedBlockIsOlderThanOneThatWaits(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "c")
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	a.table.add(0, 0, 1)
	w.run(2 * time.Second)
	w.cut[[2]*port{a.port, b.port}] = true
	a.table.add(0, 0, 2) // c alone gets this
	w.run(600 * time.Millisecond)
	w.cut[[2]*port{a.port, c.port}] = true
	a.table.add(0, 0, 4)
	w.run(600 * time.Millisecond)
	f := b.replica.origins.find(originKey{"a", a.epoch.id})
	f.lackLocked(0)
	f.blocks[0].asked = w.at
	m := wholeBody{block: 0, clock: a.table.AppendClock(nil), names: []byte("names"), state: a.table.AppendBlockState(nil, 0)}
	m.seq, m.flush, _ = a.replica.publisher.numberOf(0)
	f.addWholeLocked(&m, w.at)
	w.run(5 * time.Second)
	if got := b.total(); got != 3 {
		t.Errorf("b answers %d of the relayed state, want 3", got)
	}
	clear(w.cut)
	w.run(2 * time.Second)
	w.agree(7)
}

// A replica has heard one heartbeat of an origin and nothing of its state, which another one relays as of an
// earlier moment. The clock stands with the values: rates would read low if it were ahead.
func TestRelayedStateIsOlderThanTheHeartbeat(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	a.table.add(0, 0, 1)
	w.run(2 * time.Second)
	w.cut[[2]*port{a.port, b.port}] = true
	w.run(1400 * time.Millisecond)
	c := newNode(t, w.fabric, "c")
	w.nodes = append(w.nodes, c)
	w.cut[[2]*port{c.port, a.port}] = true // no question arrives
	key := originKey{"a", a.epoch.id}
	for c.replica.origins.find(key) == nil {
		w.run(grain)
	}
	a.kill()
	w.run(5 * time.Second)
	w.agree(1)
	ofB, ofC := b.replica.origins.find(key), c.replica.origins.find(key)
	if want, got := ofB.shown.(*modelShadow).at, ofC.shown.(*modelShadow).at; got != want {
		t.Errorf("the clock of what b relayed is at %d, at c at %d", want, got)
	}
	if want, got := ofB.status(w.at).Lag, ofC.status(w.at).Lag; (got - want).Abs() > grain {
		t.Errorf("b heard the state %v ago, c %v", want, got)
	}
}

// A replica has heard the new process of an origin, and another one relays what the former process left. The new
// process is heard when it comes back, though it has sent fewer heartbeats than the former.
func TestRelayedStateIsOfTheFormerProcess(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "c")
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	a.table.add(0, 0, 1)
	w.run(30 * time.Second)
	w.cut[[2]*port{a.port, b.port}] = true
	a.table.add(0, 0, 2) // c alone gets this
	w.run(time.Second)
	a.kill()
	a.start()
	w.cut[[2]*port{a.port, c.port}], w.cut[[2]*port{b.port, a.port}] = true, true
	w.run(time.Second)
	w.cut[[2]*port{a.port, b.port}], w.cut[[2]*port{b.port, c.port}] = true, true // c does not hear of the new process
	for f := b.replica.origins.find(originKey{"a", a.epoch.id}); f.pull == nil; {
		w.run(grain)
	}
	delete(w.cut, [2]*port{b.port, c.port})
	w.run(time.Second)
	if got := b.total(); got != 3 {
		t.Errorf("b answers %d of the relayed state, want 3", got)
	}
	a.table.add(0, 0, 4)
	clear(w.cut)
	w.run(2 * time.Second)
	w.agree(7)
}

// A replica forgets an origin that it does not hear, because all that it knew of it has expired. Others heard more, and
// relay it when the origin has ended.
func TestForgottenOriginHasMoreElsewhere(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "d")
	b, d := w.nodes[1], w.nodes[2]
	w.run(2 * time.Second)
	w.cut[[2]*port{d.port, b.port}], w.cut[[2]*port{b.port, d.port}] = true, true
	w.run(65 * time.Second)
	for range 20 {
		w.push(d)
	}
	w.run(5 * time.Second)
	d.kill()
	clear(w.cut)
	w.run(10 * time.Second)
	w.agree(w.applied())
}

// A replica that heard an origin to its end reads a block from another one that was cut off long before. The clock stays
// where it was: windows would begin earlier, and lifetimes end later.
func TestRelayOfAnOlderClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(rand.New(rand.NewPCG(1, 4)), time.Now)
		all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 2)
		a, c, tick := all[0], all[1], 0
		pass := func(d time.Duration) {
			for range int(d / stepEvery) {
				passTables(f, all, tick)
				tick++
			}
		}
		for range 600 {
			a.push(simulated{name: "stream", kind: metric.Counter, op: metric.Add, whole: 5})
			pass(stepEvery)
		}
		b := &process{name: "origin-2", config: a.config} // what it reads whole has a higher version
		startProcess(t, f, b)
		all = append(all, b)
		pass(2 * time.Second)
		f.cut[[2]*port{a.port, b.port}], f.cut[[2]*port{b.port, a.port}] = true, true
		pass(5 * time.Minute)
		clock := func() time.Duration {
			return c.replica.origins.find(originKey{a.name, a.epoch.id}).shown.(*aggregate.Shadow).Table().Clock.Now().At
		}
		before := clock()
		a.kill()
		for range 100 {
			if pass(stepEvery); clock() < before {
				t.Fatalf("the clock falls from %v to %v", before, clock())
			}
		}
	})
}

// separate cuts all links of a process.
func (w *world) separate(p *port) {
	for _, other := range w.ports {
		w.cut[[2]*port{p, other}], w.cut[[2]*port{other, p}] = true, true
	}
}

// Announcements that no replica wrote cost bounded memory and remove nothing.
func TestForgedAnnouncements(t *testing.T) {
	w := newWorld(t, 4, "a", "b")
	w.push(w.nodes[0])
	w.run(2 * time.Second)
	b := w.nodes[1].replica
	for epoch := range uint64(10 * maxOrigins) {
		var all []silentOrigin
		for i := range uint64(maxOrigins) {
			all = append(all, silentOrigin{key: originKey{"x", epoch*maxOrigins + i}, incarnation: 1, digest: 1, clock: make([]byte, 9)})
		}
		w.nodes[0].replica.send(b.subjects.of(flowOf, "a", topicRelay), typeRelay, (&relayBody{all: all}).append(nil), nil)
		w.run(10 * time.Millisecond)
	}
	if n := len(b.origins.all); n != maxOrigins {
		t.Errorf("%d origins", n)
	}
	if w.rejected(w.nodes[1], reasonFlood) == 0 {
		t.Error("the flood is not counted")
	}
	w.agree(w.applied())
	w.run(3 * time.Minute)
	if n := len(b.origins.all); n != 1 {
		t.Errorf("%d origins after the flood", n)
	}
	w.agree(w.applied())
}

// TestSimulationOfRelays: origins die, lose their disks and stay away while the fabric is bad. Once
// it is quiet, all live replicas have the same totals.
func TestSimulationOfRelays(t *testing.T) {
	eachSeed(t, 1, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, "a", "b", "c", "d")
		for range 3 {
			relayTrouble(w)
			relayQuiet(w)
		}
	})
}

func relayTrouble(w *world) {
	w.drop, w.double, w.late = w.rng.Float64()*0.3, w.rng.Float64()*0.2, w.rng.Float64()*0.4
	w.delay = time.Duration(1+w.rng.IntN(1500)) * time.Millisecond
	for range 200 {
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		switch p := w.rng.IntN(40); {
		case n.replica == nil && p < 4:
			if p == 0 {
				n.disk = nil
			} else if p == 1 && n.diskBefore != nil {
				n.disk = n.diskBefore
			}
			n.start()
		case n.replica == nil:
		case p == 0 && len(w.running()) > 1:
			n.kill()
		default:
			w.push(n)
		}
		w.run(time.Duration(1+w.rng.IntN(10)) * 20 * time.Millisecond)
	}
}

// relayQuiet lets messages arrive. Origins that are away stay away.
func relayQuiet(w *world) {
	w.drop, w.double, w.late = 0, 0, 0
	w.run(15 * time.Second)
	live := w.running()
	for _, n := range live {
		if n.total() != live[0].total() {
			w.t.Fatalf("%s answers %d, %s %d:\n%s%s", n.name, n.total(), live[0].name, live[0].total(), held(n), held(live[0]))
		}
		if ready, detail := n.replica.Ready(); !ready && w.at.Sub(n.replica.started) > joinsWithin {
			w.t.Fatalf("%s is not ready: %s", n.name, detail)
		}
	}
}

func (w *world) running() (live []*node) {
	for _, n := range w.nodes {
		if n.replica != nil {
			live = append(live, n)
		}
	}
	return live
}

// held describes what a replica has of each origin.
func held(n *node) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: own %x %d\n", n.name, n.replica.me.epoch, n.table.total())
	for _, f := range n.replica.origins.sorted() {
		fmt.Fprintf(&out, "  %s %x: incarnation %x, pulls %v, shown %v", f.key.name, f.key.epoch, f.incarnation, f.pull != nil, f.shown != nil)
		if f.shown != nil {
			fmt.Fprintf(&out, " %d", f.shown.(*modelShadow).total())
		}
		for i := range f.blocks {
			fmt.Fprintf(&out, " %v", f.versionLocked(i))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// TestSimulationOfRelayedTables: the same with real tables. A replica without its disk that starts
// while another is away answers as the one that stayed, once it is ready.
func TestSimulationOfRelayedTables(t *testing.T) {
	eachSeed(t, 8, func(t *testing.T, seed uint64) { newRelayedTables(t, seed).run() })
}

// relayedTables are three processes: one stays, one is away, and one loses its disk, which may be
// the one that is away.
type relayedTables struct {
	t                 *testing.T
	f                 *fabric
	rng               *rand.Rand
	all               []*process
	stays, away, bare *process
	awaySince         time.Time
	want              int64
}

func newRelayedTables(t *testing.T, seed uint64) *relayedTables {
	rng := rand.New(rand.NewPCG(seed, 4))
	f := newFabric(rng, time.Now)
	all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 3)
	r := &relayedTables{t: t, f: f, rng: rng, all: all, stays: all[0], away: all[1], bare: all[1+rng.IntN(2)]}
	rng.Shuffle(3, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return r
}

func (r *relayedTables) run() {
	for tick := range 310 {
		for i, p := range r.all {
			if tick < 300 { // the newest counts reach all
				p.push(simulated{name: "stream", pod: i, kind: metric.Counter, op: metric.Add, whole: 5})
				p.push(simulated{name: "gone", pod: i, kind: metric.Counter, op: metric.Add, whole: 5})
				r.want += 5
			}
		}
		passTables(r.f, r.all, tick)
	}
	r.away.kill()
	r.awaySince = time.Now()
	for tick := range 30 + r.rng.IntN(200) { // the others know that it is away
		passTables(r.f, r.all, tick)
	}
	r.stays.deleted.Add(&deletion.Selector{Resource: "pods", Namespace: "ns", Object: "*", Name: "gone"})
	r.stays.merged.Delete(ofPods("gone"))
	for tick := range 20 {
		passTables(r.f, r.all, tick)
	}
	r.f.drop, r.f.late, r.f.delay = r.rng.Float64()*0.2, r.rng.Float64()*0.3, time.Second
	if r.bare.replica != nil {
		r.bare.kill()
	}
	r.bare.disk = nil
	startProcess(r.t, r.f, r.bare)
	for tick := range 1200 {
		passTables(r.f, r.all, tick)
		ready, _ := r.bare.replica.Ready()
		if tick == 300 && !ready {
			r.t.Fatal("not ready after thirty seconds")
		}
		if ready {
			r.compare(tick)
		}
	}
}

// compare compares the replica without its disk with the one that stayed.
func (r *relayedTables) compare(tick int) {
	if got := r.bare.total("stream"); got != r.want {
		r.t.Fatalf("tick %d: %s answers %d, want %d; %+v", tick, r.bare.name, got, r.want, r.bare.replica.Origins())
	}
	if gone := r.bare.read("gone:total"); len(gone) > 0 {
		r.t.Fatalf("tick %d: %s answers with deleted series: %v", tick, r.bare.name, gone)
	}
	if got, want := r.heard(r.bare), r.heard(r.stays); got.Sub(want).Abs() > 2*time.Second {
		r.t.Fatalf("tick %d: %s heard at %s, want %s", tick, r.bare.name, got, want)
	}
	if time.Since(r.awaySince) > runsAfter-time.Second {
		return
	}
	pod := fmt.Sprintf("p%d", slices.Index(r.all, r.away))
	for _, asked := range []string{"stream:rate:10s", "stream:rate:1m", "stream:count:10s"} {
		got, want := r.bare.read(asked)[pod], r.stays.read(asked)[pod]
		if got != want || want.Float64() == 0 {
			r.t.Fatalf("tick %d: %s reads %s of %s as %v, %s as %v", tick, r.bare.name, asked, pod, got, r.stays.name, want)
		}
	}
}

// heard is when a process says that the origin which is away was heard last.
func (r *relayedTables) heard(p *process) (at time.Time) {
	for _, f := range p.replica.origins.sorted() {
		if f.key.name == r.away.name && f.key.epoch != r.away.epoch.id || r.away != r.bare && f.key.name == r.away.name {
			at = f.shown.(*aggregate.Shadow).HeardAt()
		}
	}
	return at
}

// With goroutines: a replica that starts after another has left gets the state of that from a third.
func TestRelayConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b := join(t, e, "a"), join(t, e, "b")
		for i := range 50 {
			a.add(i, 1)
		}
		time.Sleep(3 * time.Second)
		a.leave()
		late := []*member{join(t, e, "c"), join(t, e, "d"), join(t, e, "a")} // the last without its disk
		b.add(7, 5)
		time.Sleep(6 * time.Second)
		for _, m := range append(late, b) {
			if ready, detail := m.replica.Ready(); m.total() != 55 || !ready {
				t.Errorf("%s answers %d, want 55; ready %v, %s", m.replica.me.name, m.total(), ready, detail)
			}
			m.leave()
		}
	})
}
