package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// start runs a store until the returned function is called, or the test ends.
func start(t *testing.T, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Run:", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// mustSync syncs a store that runs.
func mustSync(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Sync(t.Context()); err != nil {
		t.Error("Sync:", err)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestCleanStop: all that was applied before Run's context ended is restored, to the last sample.
func TestCleanStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newModel(3)
	s := mustOpen(t, dir, model)
	stop := start(t, s)
	for i := range 50 {
		model.put(i%3, uint16(i), fmt.Sprint("n", i), "v")
	}
	stop()
	if err := s.Sync(t.Context()); !errors.Is(err, ErrNotPersisting) {
		t.Fatalf("Sync after Run: %v", err)
	}
	mustClose(t, s)
	restored := newModel(0)
	mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	if restored.clock != model.clock {
		t.Fatalf("clock %d, restored %d", model.clock, restored.clock)
	}
}

// TestSync: a copy of the folder after Sync contains all that was applied before it.
func TestSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newModel(2)
	s := mustOpen(t, dir, model)
	stop := start(t, s)
	model.put(1, 1, "a", "before")
	mustSync(t, s)
	model.settleRestored()
	restored := newModel(0)
	again := mustOpen(t, crashCopy(t, dir), restored)
	model.mustDescend(t, restored)
	mustClose(t, again)

	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() { mustSync(t, s) })
	}
	callers.Wait()
	stop()
}

// TestSyncsShareAFlush: all callers of Sync that wait for the next flush share it, and its fsync.
func TestSyncsShareAFlush(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), newModel(1))
	first := s.syncs.join()
	if s.syncs.join() != first {
		t.Error("two callers wait for different flushes")
	}
	newStepper(s).flush(t)
	if s.syncs.join() == first {
		t.Error("a caller joins a flush that is over")
	}
	must(t, s.syncOnce())
	select {
	case <-first.done:
	default:
		t.Error("the callers are not answered")
	}
}

// TestSyncsShareAPeriod: however often Sync flushes, checkpoints stay as rare and no slot is lost.
func TestSyncsShareAPeriod(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 3)
	for i := range 700 {
		model.put(i%3, 1, "a", fmt.Sprint(i))
		clock.now = clock.now.Add(s.cfg.FlushInterval / 300)
		clock.flush(t)
	}
	if period := s.seq.Period(); period > 5 {
		t.Errorf("period %d after 700 flushes in 3 intervals", period)
	}
	for i := range s.flusher.blocks {
		if s.flusher.blocks[i].checkpoint > 2<<8 {
			t.Errorf("block %d had a checkpoint at %x", i, s.flusher.blocks[i].checkpoint)
		}
	}
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestEvenCheckpoints: checkpoints of blocks that all begin to change at once are spread evenly
// over the periods, each before its slots are used up. An unchanged block costs nothing.
func TestEvenCheckpoints(t *testing.T) {
	t.Parallel()
	const blocks = 240
	model := newModel(blocks + 1)
	s := mustOpen(t, t.TempDir(), model)
	clock := newStepper(s)
	model.put(blocks, 1, "still", "1")
	for period := range 2 * checkpointPeriods {
		for b := range blocks {
			model.put(b, 1, "a", fmt.Sprint(period))
		}
		clock.period(t)
		written := 0
		for b := range blocks {
			p := &s.flusher.blocks[b]
			if p.checkpoint == s.seq {
				written++
			}
			if p.hasDeltas && s.seq.Period()-p.firstDelta.Period() >= format.DeltaSlots {
				t.Fatalf("block %d: %d periods without a checkpoint", b, s.seq.Period()-p.firstDelta.Period())
			}
		}
		if written > 2*blocks/checkpointPeriods {
			t.Fatalf("period %d: %d checkpoints of %d blocks", period, written, blocks)
		}
	}
	before := s.flusher.blocks[blocks].checkpoint
	if before == 0 || s.flusher.blocks[blocks].hasDeltas || before.Period() > checkpointPeriods+1 {
		t.Fatalf("the block that is still: %+v", s.flusher.blocks[blocks])
	}
}

// A stuckTable blocks in its clock, which to the store looks like a stalled disk.
type stuckTable struct {
	*modelTable
	hang atomic.Pointer[chan struct{}]
}

func (s *stuckTable) AppendClock(dst []byte) []byte {
	if c := s.hang.Load(); c != nil {
		<-*c
	}
	return s.modelTable.AppendClock(dst)
}

// TestStall: while a flush hangs, Lag grows, Detail says so, and Run and Close keep their time
// limits.
func TestStall(t *testing.T) {
	t.Parallel()
	table := &stuckTable{modelTable: newModel(1)}
	cfg := testConfig(t.TempDir())
	cfg.StopTimeout = 100 * time.Millisecond
	s := mustOpenIn(t, database.StorageProcess, cfg, Parts{Table: table})
	s.status.lateAfter = 500 * time.Millisecond
	running, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	mustSync(t, s)
	release := make(chan struct{})
	table.hang.Store(&release)
	table.put(0, 1, "a", "1")
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Sync(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Sync: %v", err)
	}
	eventually(t, "Detail says that the disk is late", func() bool { ok, detail := s.Detail(); return !ok && strings.Contains(detail, "behind") })
	if s.Lag() < s.status.lateAfter {
		t.Fatalf("Lag %v", s.Lag())
	}
	end()
	if err := <-ended; !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), "waited 100ms for the last flush: what was applied after ") {
		t.Fatalf("Run ended with %v", err)
	}
	closing, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Close(closing); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Close: %v", err)
	}
	table.hang.Store(nil)
	close(release)
	eventually(t, "the flush that hung ends and the directory is free", func() bool {
		folder, err := folder.Open(cfg.Dir)
		return err == nil && folder.Release() == nil
	})
}

// TestFailedWrite holds S4: the next successful flush writes the changes of a failed one.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 3)
	for i := range 3 {
		model.put(i, 1, "a", "first")
	}
	clock.period(t)
	for i := range 3 {
		model.put(i, 1, "a", "second")
	}
	if err := s.db.Close(); err != nil { // every write fails from here on
		t.Fatal(err)
	}
	clock.now = clock.now.Add(s.cfg.FlushInterval)
	if err := s.flushStep(clock.now); err == nil {
		t.Fatal("a flush into a closed database succeeded")
	}
	if ok, detail := s.Detail(); ok || !strings.Contains(detail, "not persisting") {
		t.Fatalf("Detail: %v %s", ok, detail)
	}
	if err := s.Sync(t.Context()); !errors.Is(err, ErrNotPersisting) {
		t.Fatalf("Sync: %v", err)
	}
	if err := s.flushStep(clock.now.Add(time.Millisecond)); err == nil {
		t.Fatal("tried again at once")
	}
	model.put(1, 2, "b", "third")
	clock.now = clock.now.Add(firstRetry)
	clock.flush(t)
	if ok, detail := s.Detail(); !ok {
		t.Fatalf("Detail: %s", detail)
	}
	model.put(2, 2, "c", "fourth")
	clock.period(t)
	mustClose(t, s)
	mustRestore(t, dir, model)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeChain(t, dir, 3)
	s := mustOpen(t, dir, newModel(0))
	newStepper(s).period(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 15 {
		t.Fatalf("%d metrics, %v", n, err)
	}
	want := `
# HELP sluice_store_flushes_total Successful flushes.
# TYPE sluice_store_flushes_total counter
sluice_store_flushes_total 1
# HELP sluice_store_persisting 1 while changes are written to disk, 0 while the disk is too full or failing.
# TYPE sluice_store_persisting gauge
sluice_store_persisting 1
# HELP sluice_store_restored_blocks Blocks of 1,024 series found at the last start: complete, cut to an earlier state, or failed.
# TYPE sluice_store_restored_blocks gauge
sluice_store_restored_blocks{result="complete"} 2
sluice_store_restored_blocks{result="cut"} 0
sluice_store_restored_blocks{result="failed"} 0
`
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(want),
		"sluice_store_flushes_total", "sluice_store_persisting", "sluice_store_restored_blocks"))
}

// TestPaceSpreads: a flush lasts as long as the work of the last one suggests, a longer flush
// takes the rest of its time, and an urgent one has the shortest rests. Time that a slice had to
// wait doesn't lengthen its rest.
func TestPaceSpreads(t *testing.T) {
	const spread = 200 * time.Millisecond
	for name, test := range map[string]struct {
		before, into time.Duration // worked in the last flush; how long this one lasts already
		urgent       bool
		want         time.Duration // after a millisecond of work
	}{
		"the first one":          {0, 0, false, maxRatio * time.Millisecond},
		"hardly anything":        {time.Millisecond, 0, false, maxRatio * time.Millisecond},
		"a fifth of the time":    {40 * time.Millisecond, 0, false, 4 * time.Millisecond},
		"more than the time":     {300 * time.Millisecond, 0, false, shortestRest},
		"no longer than it has":  {40 * time.Millisecond, spread - 2*time.Millisecond, false, 2 * time.Millisecond},
		"later than it should":   {40 * time.Millisecond, spread + time.Millisecond, false, shortestRest},
		"somebody waits for it":  {40 * time.Millisecond, 0, true, urgentRest},
		"nobody, and just begun": {100 * time.Millisecond, 0, false, time.Millisecond},
	} {
		p := pacer{spread: spread, worked: test.before, urgent: func() bool { return test.urgent }}
		p.begin()
		if got := p.rest(time.Millisecond, p.begun.Add(test.into)); got != test.want {
			t.Errorf("%s: rests %v, want %v", name, got, test.want)
		}
	}
	p := pacer{spread: spread, worked: time.Millisecond, urgent: func() bool { return false }}
	p.begin()
	if got, want := p.rest(25*time.Millisecond, p.begun), maxRatio*maxCounted; got != want {
		t.Errorf("after a slice that had to wait: rests %v, want %v", got, want)
	}
}
