package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agents"
)

// modelUsage is the usage that a process knows.
type modelUsage struct {
	latest *usage.Latest
	now    func() time.Time
}

func (u *modelUsage) Own() []string {
	return slices.Sorted(slices.Values(u.latest.Own(u.now())))
}

func (u *modelUsage) OwnReport(node string) []byte {
	report, ok := u.latest.Report(node, u.now())
	if !ok {
		return nil
	}
	return agents.EncodeUsage(node, &report, u.now())
}

func (u *modelUsage) Take(message []byte) error {
	node, report, err := agents.DecodeUsage(message, u.now())
	if err == nil {
		u.latest.Set(node, report, u.now())
	}
	return err
}

// measuredNode has an agent, which reports to a replica.
type measuredNode struct {
	name       string
	containers int
	number     uint64
	replica    int
}

// usageWorld is a simulation of replicas that pass usage on.
type usageWorld struct {
	*world
	measured []*measuredNode
	held     map[string]uint64 // newest number of a node at a replica
}

func newUsageWorld(t *testing.T, seed uint64) *usageWorld {
	w := &usageWorld{world: newWorld(t, seed), held: map[string]uint64{}}
	for i := range 3 {
		n := newNode(t, w.fabric, fmt.Sprint("origin-", i))
		n.kill()
		n.usage = &modelUsage{now: w.now}
		n.start()
		w.nodes = append(w.nodes, n)
	}
	for i, containers := range []int{1, 10, 3000} { // the last one is sent in pieces
		w.measured = append(w.measured, &measuredNode{fmt.Sprint("node-", i), containers, 0, i})
	}
	return w
}

// report has a node's agent report.
func (w *usageWorld) report(m *measuredNode) {
	m.number++
	n := w.nodes[m.replica]
	report := usage.Report{Number: m.number, At: w.at, Own: true}
	for i := range m.containers {
		report.Records = append(report.Records, usage.Record{
			Container: metric.Container{Namespace: "ns", Pod: fmt.Sprintf("p%0200d", i), Name: "c"},
			Newest:    usage.Newest{CPU: m.number, End: w.at}})
	}
	n.usage.latest.Set(m.name, report, w.at)
	n.replica.PublishUsage(agents.EncodeUsage(m.name, &report, w.at))
}

// numbers are what a replica has of each node.
func (w *usageWorld) numbers(n *node) (all []uint64) {
	for _, m := range w.measured {
		r, _ := n.usage.latest.Report(m.name, w.at)
		all = append(all, r.Number)
	}
	return all
}

func (w *usageWorld) newest() (all []uint64) {
	for _, m := range w.measured {
		all = append(all, m.number)
	}
	return all
}

// check checks that no replica falls back to an older report.
func (w *usageWorld) check() {
	w.t.Helper()
	for _, n := range w.nodes {
		for i, number := range w.numbers(n) {
			key := n.name + " " + w.measured[i].name
			if number < w.held[key] && number != 0 {
				w.t.Fatalf("%s: report %d after report %d", key, number, w.held[key])
			}
			w.held[key] = number
		}
	}
}

// round is ten seconds, in which each agent reports once.
func (w *usageWorld) round() {
	for i := range 10 {
		if i < len(w.measured) {
			w.report(w.measured[i])
		}
		w.run(time.Second)
		w.check()
	}
}

func (w *usageWorld) same(when string) {
	w.t.Helper()
	for _, n := range w.nodes {
		if have, want := w.numbers(n), w.newest(); !slices.Equal(have, want) {
			w.t.Errorf("%s: %s has reports %v, want %v", when, n.name, have, want)
		}
	}
}

// Each replica has the newest report of each node, whatever was lost, doubled and late. It never falls back,
// and a replica that starts has all within a few seconds of the first report.
func TestUsageIsPassedOn(t *testing.T) {
	eachSeed(t, 5, func(t *testing.T, seed uint64) {
		w := newUsageWorld(t, seed)
		w.round()
		w.same("without faults")
		w.drop, w.double, w.late, w.delay = 0.3, 0.3, 0.5, 25*time.Second
		for range 12 {
			if m := w.measured[w.rng.IntN(3)]; w.rng.IntN(2) == 0 {
				m.replica = w.rng.IntN(3)
			}
			w.round()
		}
		w.drop, w.double, w.late = 0, 0, 0
		w.run(26 * time.Second) // what is late has come
		w.round()
		w.same("after faults")

		w.nodes[0].kill()
		for _, m := range w.measured {
			m.replica = 1 + w.rng.IntN(2)
		}
		w.round()
		clear(w.held)
		w.nodes[0].start()
		w.run(5 * time.Second) // its routes
		w.measured[1].replica, w.measured[2].replica = 1, 2
		w.report(w.measured[2])
		w.run(10 * time.Millisecond)
		w.report(w.measured[1])
		w.run(4 * time.Second)
		w.same("after a start")
		w.run(30 * time.Second)
		w.same("before it is stale")
		w.run(40 * time.Second)
		for _, m := range w.measured {
			m.number = 0
		}
		w.same("after a minute")
	})
}

// Reports that no replica made cost bounded memory, and change nothing.
func TestForgedUsage(t *testing.T) {
	w := newUsageWorld(t, 1)
	w.round()
	stranger := w.fabric.open()
	to := newSubjects("test").of(usageOf, "stranger")
	send := func(kind messageType, pieces, piece int, letter uint64, body []byte) {
		h := header{kind: kind, sender: sender{"stranger", 1, 1}, letter: letter, piece: piece, pieces: pieces}
		_ = stranger.Publish(to, append(h.append(nil), body...))
		w.run(10 * time.Millisecond)
	}
	send(typeUsage, 1, 0, 1, []byte("no report"))
	send(typeDelta, 1, 0, 2, nil)
	send(typeUsage, maxUsage/maxPiece+2, 0, 3, []byte(strings.Repeat("x", maxPiece)))
	for letter := range uint64(200) {
		send(typeUsage, 2, 0, 4+letter, []byte(strings.Repeat("x", maxPiece)))
	}
	w.same("after forged reports")
	n := w.nodes[0]
	for _, reason := range []string{reasonDamaged, reasonName, reasonSize} {
		if n.replica.count.rejected.counts[reason] != 1 {
			t.Errorf("%d messages are rejected for %s, want 1", n.replica.count.rejected.counts[reason], reason)
		}
	}
	if held := n.replica.usage.budget.held.Load(); held > maxUsageHold {
		t.Errorf("pieces hold %d bytes, want %d at most", held, maxUsageHold)
	}
}
