package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

// Once a deletion is confirmed, no replica answers with what was deleted: whichever had it, and however young it
// was. Only its origin knows exactly when a series was born, and each one flushes when it is its turn.
func TestAConfirmedDeletionHoldsEverywhere(t *testing.T) {
	for _, age := range []time.Duration{2 * time.Millisecond, 600 * time.Millisecond, time.Second, 3 * time.Second} {
		for by := range 3 {
			t.Run(fmt.Sprintf("%v old, deleted by %d", age, by), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testConfirmedDeletion(t, age, by) })
			})
		}
	}
}

func testConfirmedDeletion(t *testing.T, age time.Duration, by int) {
	f := newFabric(rand.New(rand.NewPCG(uint64(by), 6)), time.Now)
	all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 3)
	ticks := 0
	pass := func() { passTables(f, all, ticks); ticks++ }
	for range 50 {
		pass()
	}
	for _, p := range all {
		p.push(simulated{name: "old", kind: metric.Counter, op: metric.Add, whole: 2})
	}
	for born := time.Now(); time.Since(born) < age; {
		if age < stepEvery {
			time.Sleep(age)
		} else {
			pass()
		}
	}
	flush := all[by].delete(deletion.Selector{Resource: "pods", Namespace: "ns", Object: podName(0), Name: "old"})
	r, asked := all[by].replica, time.Now()
	q := question{flush: flush, removed: true}
	for missing, _ := r.syncs.missing(q); len(missing) > 0; missing, _ = r.syncs.missing(q) {
		if time.Since(asked) > 5*time.Second {
			t.Fatalf("%v did not confirm", missing)
		}
		r.syncs.ask(q)
		pass()
	}
	for i, p := range all {
		if got := p.read("old:total"); len(got) > 0 {
			t.Errorf("%v after the deletion, replica %d still answers %v", time.Since(asked), i, got)
		}
	}
}

// A deletion is lost with its process, which comes back and asks for documents. Then the deletion arrives late
// at the replica that has answered. Nobody deletes alone.
func TestALostDeletionComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(rand.New(rand.NewPCG(1, 6)), time.Now)
		all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 3)
		a, c, ticks := all[0], all[2], 0
		pass := func(n int) {
			for range n {
				passTables(f, all, ticks)
				ticks++
			}
		}
		pass(50)
		for _, p := range all {
			p.push(simulated{name: "old", kind: metric.Counter, op: metric.Add, whole: 2})
		}
		pass(34) // c has just flushed, and a will
		s := deletion.Selector{Resource: "pods", Namespace: "ns", Object: podName(0), Name: "old"}
		c.deleted.Add(&s)
		h := header{kind: typeDocuments, sender: c.replica.me, pieces: 1}
		late := documentsBody{batches: 1, docs: simulatedDocuments{c}.All()}
		former := a.replica.origins.find(originKey{c.name, c.replica.me.epoch})
		c.kill()
		startProcess(t, f, c)
		pass(3)
		if !former.asker.Load().follows(former.incarnation, time.Now()) {
			t.Fatal("c has not asked before its first heartbeat")
		}
		to := a.replica.subjects.of(stateOf, c.name, a.name)
		a.replica.receive(to, append(h.append(nil), late.append(nil)...))
		pass(100)
		for _, p := range all {
			if got := p.total("old"); got != 6 {
				t.Errorf("%s answers %d, want 6", p.name, got)
			}
		}
	})
}

// delete deletes at a request, and flushes until all of it is published. It returns the number of the last flush.
func (p *process) delete(s deletion.Selector) (flush uint64) {
	p.deleted.Add(&s)
	p.merged.Delete(s.Query())
	for range 2 {
		p.flush()
	}
	flush, _ = p.replica.publisher.flushes()
	return flush
}
