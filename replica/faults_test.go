package replica

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// logTo makes a node that starts log to a buffer.
func (n *node) logTo(out *bytes.Buffer) {
	n.log = slog.New(slog.NewTextHandler(out, nil))
	n.kill()
	n.start()
}

func (w *world) rejected(n *node, reason string) uint64 {
	return n.replica.count.rejected.counts[reason]
}

func TestAnotherProtocolVersionIsLeftAlone(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	var log bytes.Buffer
	w.nodes[1].logTo(&log)
	a := w.nodes[0].replica.me
	message := (&header{kind: typeBeat, sender: a, pieces: 1}).append(nil)
	message[0] = protocolVersion + 1
	for range 50 {
		w.nodes[1].port.subs[0].handle("sluice.v1.test.flow.a.beat", message)
		w.run(100 * time.Millisecond)
	}
	if got := w.rejected(w.nodes[1], reasonVersion); got != 50 {
		t.Errorf("%d rejected", got)
	}
	if n := strings.Count(log.String(), "reason=version"); n != 1 || !strings.Contains(log.String(), "origin=a") {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	w.push(w.nodes[0])
	w.run(time.Second)
	w.agree(w.applied())
}

// While the disk of a live replica fails, the others know that its newest state is not on it.
func TestTheDiskOfAnotherFails(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	check := func(when, want string) {
		t.Helper()
		w.push(a)
		w.run(2 * beatEvery)
		if got := b.replica.Unwritten(); got != want {
			t.Errorf("%s: the disk of %q is behind, want %q", when, got, want)
		}
	}
	check("at first", "")
	a.diskFails = true
	check("it fails", "a")
	a.diskFails = false
	check("it is repaired", "")
	a.diskFails = true
	check("it fails again", "a")
	a.kill()
	w.run(2 * standsAfter)
	if got := b.replica.Unwritten(); got != "" {
		t.Errorf("%q is waited for, and is dead", got)
	}
}

// Deltas are sent in order, those that are on disk first, and the rest with the end of the flush.
func TestDeltasWaitForTheDisk(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	w.run(2 * beatEvery)
	a.nextRun = w.fabric.now().Add(time.Hour)
	received := func() uint64 { return b.replica.origins.sorted()[0].received.Load() }
	w.push(a)
	var deltas int
	for block := range a.table.Blocks() {
		if delta := a.table.AppendDelta(nil, block); len(delta) > 0 {
			a.replica.PublishDelta(block, delta)
			deltas++
		}
	}
	before := received()
	a.replica.PublishWritten(0)
	if w.run(50 * time.Millisecond); deltas == 0 || received() != before {
		t.Errorf("%d deltas; %d bytes received before they are on disk", deltas, received()-before)
	}
	a.replica.PublishWritten(deltas)
	if w.run(50 * time.Millisecond); received() == before || len(a.replica.publisher.kept) > 0 {
		t.Errorf("%d bytes received, %d deltas kept", received()-before, len(a.replica.publisher.kept))
	}
	a.replica.PublishFlush(true)
	w.run(2 * beatEvery)
	if got, want := b.total(), w.applied(); got != want {
		t.Errorf("total %d, want %d", got, want)
	}
}

func TestOtherWindowsAreLeftAlone(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.nodes[0].table.windows = 10 // the model refuses them
	w.push(w.nodes[0])
	w.run(3 * time.Second)
	b := w.nodes[1]
	if b.total() != 0 || w.rejected(b, reasonWindows) != 1 {
		t.Errorf("total %d, %d rejected", b.total(), w.rejected(b, reasonWindows))
	}
	w.nodes[0].kill()
	w.nodes[0].disk.windows = 0
	w.nodes[0].start()
	w.run(2 * time.Minute)
	w.agree(w.applied())
}

// An origin whose windows could not be read is read at once after a restart with others.
func TestWindowsThatARestartMended(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a := w.nodes[0]
	a.table.windows = 10
	w.push(a)
	w.run(3 * time.Second)
	a.kill()
	a.disk.windows = 0
	a.start()
	w.run(5 * time.Second)
	w.agree(w.applied())
}

// Replicas that have come and gone, under many names, keep no new one out.
func TestManyNamesHaveAsked(t *testing.T) {
	w := newWorld(t, 1, "a")
	a := w.nodes[0]
	w.push(a)
	w.run(time.Second)
	for i := range maxRequesters {
		a.replica.server.ask(fmt.Sprintf("pod-%d", i), &wantBody{silent: true})
	}
	w.run(time.Second)
	w.nodes = append(w.nodes, newNode(t, w.fabric, "b"))
	w.run(10 * time.Second)
	w.agree(w.applied())
}

// A restart with windows that the shadow cannot continue is no dip: the old shadow answers until
// the new one is complete.
func TestRestartWithOtherWindowsIsNoDip(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	for range 20 {
		w.push(w.nodes[0])
	}
	w.run(2 * time.Second)
	want := w.applied()
	w.nodes[0].kill()
	w.nodes[0].disk.windows = 3
	w.nodes[0].start()
	before := w.nodes[1].shown[0]
	for range 300 {
		w.run(10 * time.Millisecond)
		w.agree(want)
	}
	if w.nodes[1].shown[0] == before || !before.(*modelShadow).ended {
		t.Error("the shadow was not replaced")
	}
}

// The same if the origin dies again before that, and a third replica, of which an earlier announcement comes
// late, has only heard of the restart.
func TestRestartWithOtherWindowsThatIsCutShortIsNoDip(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	for range 20 {
		w.push(a)
	}
	w.run(2 * time.Second)
	want := w.applied()
	c := newNode(t, w.fabric, "c")
	w.nodes = append(w.nodes, c)
	key := originKey{"a", a.epoch.id}
	ofA := func() *follower { return c.replica.origins.find(key) }
	for ofA() == nil || len(ofA().blocks) == 0 {
		w.run(grain)
	}
	a.kill()
	a.disk.windows = 3
	a.start()
	for ofA().incarnation != a.epoch.incarnation {
		w.run(grain)
	}
	w.cut[[2]*port{a.port, c.port}] = true
	follows := b.replica.origins.find(key)
	for follows.shadow == follows.shown {
		w.run(grain)
	}
	a.kill()
	w.run(standsAfter)
	follows.offerLocked(&silentOrigin{key: key, digest: 1}, "c", w.at)
	for range 100 {
		w.run(100 * time.Millisecond)
		if b.total() != want {
			t.Fatalf("b answers %d, want %d; %v", b.total(), want, b.replica.Origins())
		}
	}
}

// An origin that comes back with an older state may have fewer blocks. A delta that is lost then is
// found as any other.
func TestRestartWithFewerBlocks(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a := w.nodes[0]
	a.table.add(3, 0, 1)
	w.run(2 * time.Second)
	older := a.disk
	a.table.add(5, 0, 1)
	w.run(2 * time.Second)
	a.kill()
	a.disk = older
	a.start()
	w.run(300 * time.Millisecond)
	a.table.add(0, 0, 6)
	w.drop = 1
	a.replica.PublishDelta(0, a.table.AppendDelta(nil, 0))
	w.drop = 0
	w.run(5 * time.Second)
	w.agree(w.applied())
	if f := w.nodes[1].replica.origins.sorted()[0]; f.lacking != 0 || !f.complete {
		t.Errorf("%d blocks lack something, although all are there", f.lacking)
	}
}

// Two processes of one name and one data folder, which must not be: the later start counts, and
// both say so.
func TestTwoProcessesOfOneNameAndState(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	w.push(a)
	w.run(2 * time.Second)
	second := &node{t: t, fabric: w.fabric, name: "a", log: a.log, disk: a.disk, diskEpoch: a.diskEpoch}
	second.start()
	w.nodes = append(w.nodes, second)
	for range 300 {
		a.table.add(0, 0, 1000)
		second.table.add(0, 1, 1)
		w.run(100 * time.Millisecond)
	}
	w.run(time.Second)
	if got, want := b.total(), second.table.total(); got != want {
		t.Errorf("b answers %d, want the later start's %d", got, want)
	}
	if w.rejected(b, reasonName) == 0 {
		t.Error("b does not say that two processes have one name")
	}
	for _, n := range []*node{a, second} {
		if _, detail := n.replica.Ready(); !strings.Contains(detail, "another process") {
			t.Errorf("detail: %s", detail)
		}
	}
	second.kill()
	w.run(30 * time.Second)
	if got, want := b.total(), a.table.total(); got != want {
		t.Errorf("b answers %d after the later start has ended, want %d", got, want)
	}
}

// Two processes of one name with data folders of their own are two origins, and both say so; three
// do too.
func TestTwoProcessesOfOneName(t *testing.T) {
	w := newWorld(t, 1, "a", "a", "a", "b")
	var log bytes.Buffer
	w.nodes[1].logTo(&log)
	for range 150 {
		w.push(w.nodes[0])
		w.push(w.nodes[1])
		w.run(100 * time.Millisecond)
	}
	w.run(2 * time.Second)
	w.agree(w.applied())
	for _, n := range w.nodes[:3] {
		if _, detail := n.replica.Ready(); w.rejected(n, reasonName) == 0 || !strings.Contains(detail, "data of its own") {
			t.Errorf("%d rejected; detail: %s", w.rejected(n, reasonName), detail)
		}
	}
	if n := strings.Count(log.String(), "reason=name"); n != 1 || !strings.Contains(log.String(), "origin=a") {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	w.nodes[1].kill()
	w.nodes[2].kill()
	w.run(65 * time.Second)
	if _, detail := w.nodes[0].replica.Ready(); strings.Contains(detail, "another process") {
		t.Errorf("a minute after the others have ended: %s", detail)
	}
}

// The former epoch of a process that lost its disk is no other process, though others relay it, and its
// last heartbeats may be late.
func TestLostDiskIsNoOtherProcess(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a := w.nodes[0]
	w.push(a)
	w.run(5 * time.Second)
	former := header{kind: typeBeat, sender: a.replica.me, pieces: 1}
	a.kill()
	a.disk = nil
	a.start()
	for number := range uint64(5) {
		w.run(time.Second)
		m := beatBody{number: 100 + number, flush: 1, clock: a.table.AppendClock(nil)}
		a.replica.receive("sluice.v1.test.flow.a.beat", append(former.append(nil), m.append(nil)...))
	}
	w.run(time.Minute)
	if _, detail := a.replica.Ready(); w.rejected(a, reasonName) > 0 || strings.Contains(detail, "another process") {
		t.Errorf("%d rejected; detail: %s", w.rejected(a, reasonName), detail)
	}
}

func TestSilentOriginStandsStillThenRunsOutThenEnds(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.push(w.nodes[0])
	w.run(2 * time.Second)
	b := w.nodes[1]
	shadow := b.shown[0].(*modelShadow)
	w.nodes[0].kill()
	w.run(50 * time.Second)
	if _, detail := b.replica.Ready(); shadow.ran || !strings.Contains(detail, "stands still") {
		t.Errorf("runs %v, %s", shadow.ran, detail)
	}
	w.run(15 * time.Second)
	if !shadow.ran || b.total() != w.applied() {
		t.Errorf("after a minute: runs %v, total %d", shadow.ran, b.total())
	}
	shadow.blocks = nil // all have expired
	w.run(time.Minute)
	if !shadow.ended || len(b.shown) != 0 || len(b.replica.Origins()) != 0 {
		t.Errorf("ended %v, %d shadows, %v", shadow.ended, len(b.shown), b.replica.Origins())
	}
	w.nodes[0].start()
	w.run(3 * time.Second)
	w.agree(w.applied())
}

// A flood of questions costs a bounded number of answers.
func TestFloodOfQuestions(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0].replica, w.nodes[1].replica
	const blocks = 200
	w.nodes[0].table.add(blocks-1, 0, 1)
	w.run(2 * time.Second)
	before := a.count.sent.Load()
	m := wantBody{of: a.me, blocks: []int{maxBlocks - 1}, numbers: true}
	for i := range blocks {
		m.blocks = append(m.blocks, i, i)
	}
	m.blocks = m.blocks[:maxAsked]
	for range 10_000 {
		b.send(b.subjects.of(wantOf, "a"), typeWant, m.append(nil), nil)
		w.run(10 * time.Millisecond)
	}
	const most = 4*blocks + leastBudget + 100*(blocks/8+leastRate) // answers in 100 s
	if sent := a.count.sent.Load() - before; sent > 120*most {
		t.Errorf("%d bytes are sent, for at most %d answers", sent, most)
	}
	if w.rejected(w.nodes[0], reasonFlood) == 0 {
		t.Error("the flood is not counted")
	}
}

func TestTooManyOrigins(t *testing.T) {
	w := newWorld(t, 1, "b")
	b := w.nodes[0].replica
	beat := func(epoch uint64) {
		h := header{kind: typeBeat, sender: sender{"a", epoch, 1}, pieces: 1}
		m := beatBody{number: 1, flush: 1, clock: make([]byte, 9)}
		b.receive("sluice.v1.test.flow.a.beat", append(h.append(nil), m.append(nil)...))
	}
	for i := range uint64(maxOrigins + 5) {
		beat(i)
	}
	if n := len(b.origins.all); n != maxOrigins {
		t.Errorf("%d origins", n)
	}
	if got := w.rejected(w.nodes[0], reasonFlood); got != 5 {
		t.Errorf("%d rejected", got)
	}
	w.run(90 * time.Second) // silent, and forgotten because they are empty
	beat(1000)
	if n := len(b.origins.all); n != 1 {
		t.Errorf("%d origins", n)
	}
}

func TestClockOffset(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.nodes[0].skew = -time.Hour
	var log bytes.Buffer
	w.nodes[1].logTo(&log)
	w.run(10 * time.Second)
	shadow := w.nodes[1].shown[0].(*modelShadow)
	if off := shadow.correction - time.Hour; off < 0 || off > 50*time.Millisecond {
		t.Errorf("correction %v", shadow.correction)
	}
	if n := strings.Count(log.String(), "clocks of two replicas differ"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	w.nodes[0].skew = time.Second // set right, or nearly
	w.run(10 * time.Second)
	if shadow.correction != 0 {
		t.Errorf("correction %v", shadow.correction)
	}
	w.nodes[0].skew = -time.Minute // later than the least of the last minutes
	w.run(10 * time.Second)
	if off := shadow.correction - time.Minute; off < 0 || off > 50*time.Millisecond {
		t.Errorf("correction %v", shadow.correction)
	}
}

// Late messages don't move the estimate.
func TestClockOffsetOfLateMessages(t *testing.T) {
	var o offset
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		late := time.Duration(0)
		if i > 0 && i%4 != 1 { // the first of each further period is late, too
			late = 5 * time.Second
		}
		now = now.Add(500 * time.Millisecond)
		o.add(now, time.Millisecond+late)
		if got, _ := o.correct(); got != 0 {
			t.Fatalf("message %d: correction %v", i, got)
		}
	}
	for i := range 40 { // they waited while this process stood still
		o.add(now, time.Duration(40-i)*500*time.Millisecond)
		if got, _ := o.correct(); got != 0 {
			t.Fatalf("waiting message %d: correction %v", i, got)
		}
	}
}

// Origins that are made up keep no configured peer out, even while they are heard.
func TestConfiguredPeersComeFirst(t *testing.T) {
	w := newWorld(t, 1, "b")
	b := w.nodes[0].replica
	b.cfg.Peers = []string{"a", "b"}
	beat := func(name string, epoch uint64) {
		h := header{kind: typeBeat, sender: sender{name, epoch, 1}, pieces: 1}
		m := beatBody{number: 1, flush: 1, clock: make([]byte, 9)}
		b.receive("sluice.v1.test.flow."+name+".beat", append(h.append(nil), m.append(nil)...))
	}
	for i := range uint64(maxOrigins + 5) {
		beat(fmt.Sprint("forged-", i), i)
	}
	beat("a", 1000)
	if n := len(b.origins.all); n != maxOrigins || b.origins.all[originKey{"a", 1000}] == nil {
		t.Errorf("%d origins, without the peer", n)
	}
	beat("late", 1001)
	if b.origins.all[originKey{"late", 1001}] != nil {
		t.Error("another origin takes the place of one that is heard")
	}
}

// /readyz and sluice_replica_origins count the same, also epochs of one name, and the log has an end.
func TestShortLivedEpochsAreOneOrigin(t *testing.T) {
	w := newWorld(t, 1, "b")
	var log bytes.Buffer
	w.nodes[0].logTo(&log)
	b := w.nodes[0].replica
	for i := range uint64(maxOrigins - 1) {
		h := header{kind: typeBeat, sender: sender{"a", i, 1}, pieces: 1}
		m := beatBody{number: 1, flush: 1, clock: make([]byte, 9)}
		b.receive("sluice.v1.test.flow.a.beat", append(h.append(nil), m.append(nil)...))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(
		"# HELP sluice_replica_origins Other origins of which this replica holds a shadow.\n"+
			"# TYPE sluice_replica_origins gauge\nsluice_replica_origins 1\n"), "sluice_replica_origins"); err != nil {
		t.Error(err)
	}
	if _, detail := b.Ready(); !strings.Contains(detail, "yet: 1 origin") || len(detail) > 1000 {
		t.Errorf("detail %s, want 1 origin", detail)
	}
	if n := strings.Count(log.String(), "origin found"); n != mostNotes {
		t.Errorf("%d lines about origins, want %d", n, mostNotes)
	}
}

// Messages that were taken, and those of an inbox that is closed, give their bytes back.
func TestAnInboxGivesItsBytesBack(t *testing.T) {
	sum := budget{most: maxBody}
	i := newInbox(&sum)
	i.put(parcel{piece: make([]byte, 100)})
	if held := sum.held.Load(); held != 100+parcelBytes || len(i.take()) != 1 || sum.held.Load() != 0 {
		t.Errorf("%d bytes are held for a message, and %d once it is taken", held, sum.held.Load())
	}
	i.put(parcel{piece: make([]byte, 100)})
	if i.close(); i.put(parcel{}) || sum.held.Load() != 0 {
		t.Errorf("a closed inbox takes messages, or holds %d bytes", sum.held.Load())
	}
}

// A flush that is applied in part takes the whole blocks that were read before its end, and all deltas up to it.
func TestPendingOfAFlush(t *testing.T) {
	p := pending{budget: &budget{most: maxBody}}
	for flush := range uint64(4) {
		p.addWhole(&wholeBody{block: int(flush), flush: flush})
		p.addDelta(&deltaBody{flush: flush})
	}
	if wholes, deltas := p.takeWholes(2), p.takeDeltas(2); len(wholes) != 2 || len(deltas) != 3 {
		t.Errorf("flush 2 of 3 takes %d whole blocks and %d deltas, want 2 and 3", len(wholes), len(deltas))
	}
}

// Incomplete letters of many origins are bounded in sum, and a letter that is complete gives its bytes
// back.
func TestIncompleteLettersAreBoundedInSum(t *testing.T) {
	sum := budget{most: 10 * maxPiece}
	piece := make([]byte, maxPiece)
	all := make([]letters, 20)
	for i := range all {
		all[i].budget = &sum
		for p := range 3 {
			all[i].join(&header{letter: 1, pieces: 4, piece: p}, piece)
		}
	}
	if held := sum.held.Load(); held > sum.most || held < sum.most-3*maxPiece {
		t.Errorf("%d bytes are held, want nearly %d", held, sum.most)
	}
	if body, complete := all[0].join(&header{letter: 1, pieces: 4, piece: 3}, piece[:1]); complete && len(body) != 3*maxPiece+1 {
		t.Errorf("a body of %d bytes", len(body))
	}
	for i := range all {
		all[i].clear()
	}
	if held := sum.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by nothing", held)
	}
}

// What waits for the rest of messages of origins that have ended gives its room back.
func TestOriginsThatEndedHoldNoRoom(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	w.push(a)
	w.run(2 * time.Second)
	receive := func(topic string, h header, body []byte) {
		h.sender = sender{"dead", 1, 1}
		b.replica.receive("sluice.v1.test.flow.dead."+topic, append(h.append(nil), body...))
	}
	m := beatBody{number: 1, flush: 1, blocks: 1, digest: digestOf(0, 1), clock: a.table.AppendClock(nil)}
	receive("beat", header{kind: typeBeat, pieces: 1}, m.append(nil))
	a.table.add(0, 0, 1) // its shadow doesn't expire
	delta := a.table.AppendDelta(nil, 0)
	for flush := range uint64(2) { // the second one doesn't end
		d := deltaBody{flush: flush + 1, seq: flush + 1, first: flush == 0, delta: delta}
		receive("delta.0", header{kind: typeDelta, letter: flush, pieces: 1}, d.append(nil))
	}
	receive("delta.0", header{kind: typeDelta, letter: 9, pieces: 2}, make([]byte, maxPiece))
	held := func() int64 { return int64(b.replica.othersHold.held.Load() + b.replica.peersHold.held.Load()) }
	if held() < maxPiece+int64(len(delta)) {
		t.Errorf("%d bytes wait", held())
	}
	if w.run(3 * runsAfter); held() != 0 || len(b.replica.Origins()) != 2 {
		t.Errorf("%d bytes of %v still wait", held(), b.replica.Origins())
	}
}

// While the disk is slow, two flushes are in progress: one waits for it, and within that another one is published. What
// comes after both have passed its block is in neither.
func TestTwoFlushesInProgress(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	a.table.add(1, 0, 1)
	w.run(2 * time.Second)
	a.nextRun = w.at.Add(time.Hour)
	began, _ := a.replica.publisher.flushes()
	a.table.add(0, 0, 2) // after both have passed the block
	for range 2 {
		a.replica.PublishDelta(1, a.table.AppendDelta(nil, 1))
		a.replica.PublishFlush(false)
	}
	w.run(beatEvery)
	newest, _ := a.replica.publisher.flushes()
	if sure := a.replica.publisher.after(began); newest >= sure && b.total() != w.applied() {
		t.Errorf("flush %d is said to have all; b answers %d of %d", sure, b.total(), w.applied())
	}
	a.flush()
	w.run(beatEvery)
	if newest, _ = a.replica.publisher.flushes(); newest < a.replica.publisher.after(began) || b.total() != w.applied() {
		t.Errorf("flush %d; b answers %d of %d", newest, b.total(), w.applied())
	}
}

// Answers to two questions, of which each has lost a part, have all documents together, in whatever order they are told.
func TestDocumentsOfTwoAnswers(t *testing.T) {
	var docs []Document
	for i := range 4 {
		docs = append(docs, Document{Key: fmt.Sprint(i), Stamp: 1, Value: make([]byte, batchBytes/2)})
	}
	w := newWorld(t, 1, "a")
	told := &toldDocuments{all: docs}
	w.nodes[0].replica.parts.Documents = told
	var got [][]string
	port := w.open()
	_, err := port.Subscribe("sluice.v1.test.state.a.b", func(_ string, message []byte) {
		_, piece, err := readHeader(message)
		must(t, err)
		m, err := readDocuments(piece)
		must(t, err)
		var keys []string
		for _, d := range m.docs {
			keys = append(keys, d.Key)
		}
		got = append(got, keys)
	})
	must(t, err)
	w.nodes[0].replica.server.ask("b", &wantBody{documents: true})
	w.run(time.Second)
	told.all = []Document{docs[2], docs[3], docs[0], docs[1]}
	w.nodes[0].replica.server.ask("b", &wantBody{documents: true})
	w.run(time.Second)
	if len(got) != 4 || !slices.Equal(got[0], got[2]) || !slices.Equal(got[1], got[3]) {
		t.Errorf("answers in batches %q", got)
	}
}

type toldDocuments struct{ all []Document }

func (d *toldDocuments) TakeChanged() []Document  { return nil }
func (d *toldDocuments) All() []Document          { return slices.Clone(d.all) }
func (d *toldDocuments) Apply(string, []Document) {}
