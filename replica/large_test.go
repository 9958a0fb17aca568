package replica

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// pushLarge pushes a histogram of as many buckets as one may have for each of some pods.
func (p *process) pushLarge(pods int) {
	h := &metric.Histogram{Bounds: make([]float64, metric.MaxBounds), Counts: make([]float64, metric.MaxBounds+1), Sum: 1,
		Min: math.NaN(), Max: math.NaN()}
	for i := range h.Bounds {
		h.Bounds[i], h.Counts[i] = float64(i+1), 1
		h.Count++
	}
	p.writer.Online()
	defer p.writer.Offline()
	for pod := range pods {
		s := metric.Sample{Name: []byte("large"), Separator: ':', Kind: metric.Timer, Op: metric.Merge, Histogram: h}
		if s.Tags = fmt.Append(nil, pod); p.writer.Apply(&s) != metric.Applied {
			p.t.Fatal("a histogram is not applied")
		}
	}
}

// A block of large histograms takes more than a message may have. After a lost change another
// replica has the block again, with all that is small, and goes on.
func TestABlockOfLargeHistograms(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred million buckets")
	}
	const pods = 640
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(rand.New(rand.NewPCG(1, 1)), time.Now)
		all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 2)
		a, b := all[0], all[1]
		tick, total := 0, int64(0)
		pass := func(seconds int) {
			for range 10 * seconds {
				passTables(f, all, tick)
				tick++
			}
		}
		count := func() {
			a.push(simulated{name: "count", kind: metric.Counter, op: metric.Add, whole: 1})
			total++
		}
		count()
		pass(3)
		for range 12 {
			a.pushLarge(pods)
			pass(1)
		}
		if got := len(a.table.AppendState(nil, 0)); got <= maxBody {
			t.Fatalf("the block has %d bytes, want more than %d", got, maxBody)
		}
		f.drop = 1
		count()
		pass(1)
		f.drop = 0
		for second := range 12 {
			a.pushLarge(pods)
			count()
			if pass(1); second > 3 && b.total("count") != total {
				t.Fatalf("second %d after a lost change: %d, want %d; %+v", second, b.total("count"), total, b.replica.Origins())
			}
		}
		pass(1)
		for _, asked := range []string{"count:total", "large:count:1m", "large:sum:1m", "large:p50:10s"} {
			own, other := a.read(asked), b.read(asked)
			for pod, want := range own {
				if other[pod] != want {
					t.Fatalf("%s of %s is %v, at the other replica %v", asked, pod, want, other[pod])
				}
			}
		}
		if o := b.replica.Origins()[0]; o.Gaps == 0 || !o.Complete {
			t.Errorf("the other replica has %+v", o)
		}
	})
}

// The large changes of a flush have a bound, and those beyond it are not sent. Small ones are, and each
// once it is on disk.
func TestLargeChangesOfAFlushAreBounded(t *testing.T) {
	w := newWorld(t, 1, "a")
	r, sent := w.nodes[0].replica, map[int]int{}
	_, err := w.fabric.open().Subscribe(r.subjects.of(flowOf, "a", topicDelta, ">"), func(subject string, message []byte) {
		var block int
		_, err := fmt.Sscanf(subject, r.subjects.of(flowOf, "a", topicDelta, "%d"), &block)
		must(t, err)
		if h, _, err := readHeader(message); err != nil || h.kind == typeUnsent {
			return
		}
		sent[block] += len(message)
	})
	must(t, err)
	arrived := func() int { // without a flush of the node's own
		w.at = w.at.Add(time.Second)
		w.deliver()
		return len(sent)
	}
	const size, fits, all = 1 << 20, maxLarge >> 20, maxLarge>>20 + 8
	for block := range all {
		r.PublishDelta(block, make([]byte, size))
	}
	r.PublishDelta(all, make([]byte, maxPiece))
	r.PublishWritten(all)
	if arrived() != fits || sent[fits-1] < size {
		t.Errorf("%d deltas are sent before the small one is on disk, want %d", len(sent), fits)
	}
	r.PublishFlush(true)
	r.PublishDelta(fits, make([]byte, size))
	r.PublishFlush(true)
	if arrived() != fits+2 || sent[fits] < size || sent[all] < maxPiece {
		t.Errorf("%d deltas are sent, want %d", len(sent), fits+2)
	}
	if got := r.count.rejected.counts[reasonSize]; got != all-fits {
		t.Errorf("%d deltas are counted as too large, want %d", got, all-fits)
	}
}

// While each flush has a change that is too large to be sent, also of a new block, and no whole block arrives, the other
// blocks are current. They are not awaited as a lost change is.
func TestLargeChangesHoldUpNoOthers(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a, b := w.nodes[0], w.nodes[1]
	for block := range 2 {
		a.table.add(block, 0, 1)
	}
	w.run(2 * time.Second)
	w.agree(2)
	a.nextRun = w.at.Add(time.Hour)
	answers := false
	for i, s := range b.port.subs {
		if strings.HasPrefix(s.literal, b.replica.subjects.of(stateOf)) {
			b.port.subs[i].handle = func(subject string, message []byte) {
				if answers {
					s.handle(subject, message)
				}
			}
		}
	}
	for second := range 20 {
		for range 2 {
			a.table.add(0, 0, 1)
			a.replica.PublishDelta(0, a.table.AppendDelta(nil, 0))
			for block := 1; block < 2+second/10; block++ {
				a.table.add(block, 0, 1)
				a.table.AppendDelta(nil, block)
				a.replica.publisher.large = maxLarge
				a.replica.PublishDelta(block, make([]byte, maxPiece+1))
			}
			a.replica.PublishFlush(true)
			w.run(beatEvery)
		}
		if got, want := b.shown[0].(*modelShadow).blocks[0][0], a.table.blocks[0].values[0]; got != want {
			t.Fatalf("second %d: the other block has %d, want %d; %+v", second, got, want, b.replica.Origins())
		}
	}
	answers, a.nextRun = true, w.at
	w.run(3 * time.Second)
	w.agree(w.applied())
	if o := b.replica.Origins()[0]; !o.Complete {
		t.Errorf("the other replica has %+v", o)
	}
}

// An answer with more bytes than the bus holds waits for room. A change can't wait, and is given up
// once a piece of it is dropped.
func TestLargeAnswersWaitForTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &narrow{endpoint: &endpoint{newExchange(), "a"}}
		r, err := New(Config{Name: "a", Cluster: "test"}, Parts{Bus: bus, Table: &modelTable{}, Epoch: NewEpoch(), Wall: time.Now,
			Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		large := make([]byte, 4*narrowRoom)
		r.sendPieces("answer", typeWhole, large, nil, r.server.awaitRoom)
		if bus.dropped != 0 || r.count.sent.Load() < uint64(len(large)) {
			t.Errorf("%d pieces of an answer are dropped, %d bytes are sent", bus.dropped, r.count.sent.Load())
		}
		if r.send("change", typeDelta, large, nil); bus.dropped != 1 {
			t.Errorf("%d pieces of a change are dropped, want one", bus.dropped)
		}
		time.Sleep(time.Minute) // until all is sent
	})
}

// largeTable has large blocks.
type largeTable struct{ modelTable }

func (*largeTable) AppendBlockState(dst []byte, _ int) []byte {
	return append(dst, make([]byte, 2*narrowRoom)...)
}

// After an answer that has waited for the bus, the next one does not wait for the same time again.
func TestAWaitForTheBusIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answers = 4
		table := &largeTable{}
		table.add(answers-1, 0, 1)
		r, err := New(Config{Name: "a", Cluster: "test"}, Parts{Bus: &narrow{endpoint: &endpoint{newExchange(), "a"}}, Table: table,
			Epoch: NewEpoch(), Wall: time.Now, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		r.PublishFlush(true)
		ctx, stop := context.WithCancel(t.Context())
		go r.server.run(ctx)
		r.server.ask("b", &wantBody{blocks: []int{0, 1, 2, 3}})
		time.Sleep(answers * 2 * narrowRoom * time.Second / narrowRate)
		if got := r.count.sent.Load(); got < answers*2*narrowRoom {
			t.Errorf("%d bytes are sent, want %d", got, answers*2*narrowRoom)
		}
		stop()
		time.Sleep(time.Minute) // until all is sent
	})
}
