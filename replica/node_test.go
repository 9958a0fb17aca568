package replica

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
)

// node is a process of a simulation: a table, its store and its replica.
type node struct {
	t       testing.TB
	fabric  *fabric
	name    string
	skew    time.Duration // of the machine's clock
	table   *modelTable
	epoch   *Epoch
	replica *Replica
	port    *port
	shown   []Shadow
	nextRun time.Time // of the next flush
	log     *slog.Logger
	usage   *modelUsage // nil: none

	// What the store has: the table at the last flush, and the epoch.
	disk, diskBefore *modelTable // at the newest flush, and the one before
	diskEpoch        []byte
	diskFails        bool
}

func newNode(t testing.TB, f *fabric, name string) *node {
	n := &node{t: t, fabric: f, name: name, log: slog.New(slog.DiscardHandler)}
	n.start()
	return n
}

// start starts the process from its disk.
func (n *node) start() {
	n.table, n.epoch = &modelTable{at: 1}, n.fabric.newEpoch()
	if n.disk != nil {
		n.table = n.disk.clone()
		must(n.t, n.epoch.RestoreDocument(n.diskEpoch))
	}
	n.diskBefore = nil
	n.port, n.shown = n.fabric.open(), nil
	parts := Parts{
		Bus: n.port, Table: n.table, Epoch: n.epoch, Logger: n.log,
		NewShadow:  func(origin string) Shadow { return &modelShadow{origin: origin, forged: n.fabric.forged} },
		SetShadows: func(shown []Shadow, _ int) { n.shown = shown },
		FlushSoon:  func() { n.nextRun = time.Time{} },
	}
	if n.usage != nil {
		n.usage.latest = usage.NewLatest()
		parts.Usage = n.usage
	}
	r, err := New(Config{Name: n.name, Cluster: "test"}, parts)
	must(n.t, err)
	r.inline = true
	r.now = n.fabric.now
	r.started = r.now()
	r.wall = func() time.Time { return n.fabric.now().Add(n.skew) }
	if _, err := r.subscribe(); err != nil {
		n.t.Fatal(err)
	}
	n.replica = r
	n.nextRun = n.fabric.now()
}

func (n *node) kill() {
	n.port.close()
	n.replica = nil
}

// step flushes if it is time, and does what is overdue.
func (n *node) step(elapsed time.Duration) {
	if n.replica == nil {
		return
	}
	n.table.at += uint64(elapsed.Milliseconds())
	if now := n.fabric.now(); !now.Before(n.nextRun) {
		n.flush()
		n.nextRun = now.Add(beatEvery)
	}
	if now := n.fabric.now(); now.UnixNano()%int64(stepEvery) == 0 {
		n.replica.step(now)
	}
}

// step does in a simulation what goroutines do otherwise.
func (r *Replica) step(now time.Time) {
	r.pulseTick(now)
	r.publisher.step(now)
	r.relayStep(now)
	r.usageStep(now)
	for a, ok := r.server.next(now); ok; a, ok = r.server.next(now) {
		r.server.send(a)
	}
	for _, f := range r.origins.sorted() {
		f.step(now)
	}
}

// flush is a flush of the store.
func (n *node) flush() {
	for block := range n.table.Blocks() {
		if delta := n.table.AppendDelta(nil, block); len(delta) > 0 {
			n.replica.PublishDelta(block, delta)
		}
	}
	if n.replica.PublishFlush(!n.diskFails); n.diskFails {
		return
	}
	n.diskBefore = n.disk
	n.disk, n.diskEpoch = n.table.clone(), n.epoch.AppendDocument(nil)
}

// total is the merged answer.
func (n *node) total() uint64 {
	sum := n.table.total()
	for _, s := range n.shown {
		sum += s.(*modelShadow).total()
	}
	return sum
}
