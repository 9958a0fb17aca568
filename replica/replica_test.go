package replica

import (
	"math/rand/v2"
	"testing"
	"time"
)

// world is a simulation of some processes.
type world struct {
	t     testing.TB
	at    time.Time
	rng   *rand.Rand
	nodes []*node
	*fabric
}

func newWorld(t testing.TB, seed uint64, names ...string) *world {
	w := &world{t: t, at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rng: rand.New(rand.NewPCG(seed, 1))}
	w.fabric = newFabric(w.rng, func() time.Time { return w.at })
	for _, name := range names {
		w.nodes = append(w.nodes, newNode(t, w.fabric, name))
	}
	return w
}

// grain is the step in which time passes.
const grain = 10 * time.Millisecond

// run lets time pass. It skips steps in which nothing is due.
func (w *world) run(d time.Duration) {
	for end := w.at.Add(d); w.at.Before(end); {
		next := w.nextAt(earlier(end, w.at.Truncate(stepEvery).Add(stepEvery)))
		for _, n := range w.nodes {
			if n.replica != nil {
				next = earlier(next, n.nextRun)
			}
		}
		elapsed := grain
		if next.After(w.at) {
			elapsed = (next.Sub(w.at) + grain - 1).Truncate(grain)
		}
		w.at = w.at.Add(elapsed)
		w.deliver()
		for _, n := range w.nodes {
			n.step(elapsed)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// push adds a sample to a random counter of a node.
func (w *world) push(n *node) {
	n.table.add(w.rng.IntN(6), w.rng.IntN(4), uint64(1+w.rng.IntN(9)))
}

// agree checks that all nodes answer with a total.
func (w *world) agree(want uint64) {
	w.t.Helper()
	for _, n := range w.nodes {
		if got := n.total(); n.replica != nil && got != want {
			w.t.Fatalf("%s answers %d, want %d; %v", n.name, got, want, n.replica.Origins())
		}
	}
}

func (w *world) applied() (sum uint64) {
	for _, n := range w.nodes {
		sum += n.table.total()
	}
	return sum
}

func TestEachReplicaAnswersTheSumOfAll(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "c")
	for range 100 {
		w.push(w.nodes[w.rng.IntN(3)])
		w.run(70 * time.Millisecond)
	}
	w.run(time.Second)
	w.agree(w.applied())
	for _, n := range w.nodes {
		if ready, detail := n.replica.Ready(); !ready || detail != "2 origins" {
			t.Errorf("%s: ready %v, %s", n.name, ready, detail)
		}
		for _, origin := range n.replica.Origins() {
			if origin.Gaps > 0 || origin.StandingStill || !origin.Complete {
				t.Errorf("%s: %+v", n.name, origin)
			}
		}
	}
}

// A replica that starts isn't ready before it answers as the others do.
func TestReadyOnceJoined(t *testing.T) {
	w := newWorld(t, 6, "a", "c")
	w.nodes[0].table.add(100, 0, 1)
	w.nodes[1].table.add(0, 0, 1)
	w.run(time.Second)
	w.drop = 1 // the bus connects
	b := newNode(t, w.fabric, "b")
	w.nodes = append(w.nodes, b)
	for i := range 100 {
		w.run(100 * time.Millisecond)
		if i == 30 {
			w.drop = 0
		}
		if ready, _ := b.replica.Ready(); ready {
			w.agree(2)
			if i > 60 {
				t.Errorf("ready after %d tenths of a second", i)
			}
			return
		}
	}
	t.Error("not ready after ten seconds")
}

// A replica that starts waits for one that it can't hear yet, and another one hears: for firstWithin at most.
func TestReadyOnceAllAreHeard(t *testing.T) {
	for _, heals := range []time.Duration{3 * time.Second, time.Minute} {
		w := newWorld(t, 6, "a", "c")
		w.nodes[0].table.add(100, 0, 1)
		w.nodes[1].table.add(0, 0, 1)
		w.run(time.Second)
		b := newNode(t, w.fabric, "b")
		lost := [2]*port{w.nodes[1].port, b.port}
		w.cut[lost] = true
		w.nodes = append(w.nodes, b)
		ready := false
		for age := time.Duration(0); !ready && age < 10*time.Second; age += 100 * time.Millisecond {
			if age == heals {
				delete(w.cut, lost)
			}
			w.run(100 * time.Millisecond)
			if ready, _ = b.replica.Ready(); ready && age < min(heals, firstWithin-time.Second) {
				t.Errorf("ready after %v, without c", age)
			}
		}
		if !ready {
			t.Error("not ready after ten seconds")
		}
		if heals < firstWithin {
			w.agree(2)
		}
	}
}

func TestReadyAlone(t *testing.T) {
	w := newWorld(t, 7, "a")
	w.run(firstWithin - 100*time.Millisecond)
	if ready, _ := w.nodes[0].replica.Ready(); ready {
		t.Error("ready before others can be heard")
	}
	w.run(100 * time.Millisecond)
	if ready, detail := w.nodes[0].replica.Ready(); !ready || detail != "no other origin" {
		t.Errorf("ready %v, %s", ready, detail)
	}
}

// A late answer to an earlier question doesn't set a block back.
func TestLateWholeBlock(t *testing.T) {
	w := newWorld(t, 8, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	a.table.add(0, 0, 5)
	w.run(2 * time.Second)
	seq, flush, _ := a.replica.publisher.numberOf(0)
	late := wholeBody{block: 0, seq: seq, flush: flush, clock: a.table.AppendClock(nil), names: []byte("names")}
	late.state = (&modelTable{blocks: make([]modelBlock, 1)}).AppendBlockState(nil, 0) // before the first sample
	f := b.replica.origins.sorted()[0]
	f.lackLocked(0)
	f.blocks[0].asked = w.at
	h := header{kind: typeWhole, sender: a.replica.me, pieces: 1}
	b.replica.receive(b.replica.subjects.of(stateOf, "a", "b"), append(h.append(nil), late.append(nil)...))
	for range 300 {
		w.run(10 * time.Millisecond)
		w.agree(5)
	}
}

// A whole block is news only if the block has nothing as new. Simulations find no fault without this: a
// flush is applied if its digest is right, so an old block waits for a newer one.
func TestTakesWhole(t *testing.T) {
	for _, c := range []struct {
		block followedBlock
		seq   uint64
		takes bool
	}{
		{followedBlock{lacks: true}, 0, true},
		{followedBlock{lacks: true}, 5, true},
		{followedBlock{lacks: true, has: true, seq: 5}, 4, false},
		{followedBlock{lacks: true, has: true, seq: 5}, 5, false},
		{followedBlock{lacks: true, has: true, seq: 5}, 6, true},
		{followedBlock{has: true, seq: 5}, 5, false},
		{followedBlock{has: true, seq: 5}, 6, true},
	} {
		if got := c.block.takesWhole(&wholeBody{seq: c.seq}); got != c.takes {
			t.Errorf("%+v takes %d: %v", c.block, c.seq, got)
		}
	}
}
