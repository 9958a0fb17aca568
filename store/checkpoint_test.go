package store

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// A countingTable counts the bytes of deltas that it is restored from.
type countingTable struct {
	*modelTable
	deltaBytes int
}

func (c *countingTable) RestoreBlock(block int, names, state []byte, deltas iter.Seq[[]byte]) error {
	return c.modelTable.RestoreBlock(block, names, state, func(replay func([]byte) bool) {
		for d := range deltas {
			if c.deltaBytes += len(d); !replay(d) {
				return
			}
		}
	})
}

// TestLargeDeltas: where deltas are large, a block is written whole before its period, so a restore
// reads few of them; and not so often that states are most of what is written.
func TestLargeDeltas(t *testing.T) {
	t.Parallel()
	const valueBytes, periods = 400_000, 60
	for series := range uint16(4) {
		dir, model, s, clock := opened(t, 1)
		bound := max(fewDeltaBytes, 2*int(series+1)*(valueBytes+100))
		for slot := range series {
			model.put(0, slot, fmt.Sprint("idle ", slot), strings.Repeat("x", valueBytes))
		}
		clock.period(t)
		was, checkpoints, last := s.flusher.batch.written, 0, s.flusher.blocks[0].checkpoint
		for period := range periods {
			model.put(0, series, "busy", strings.Repeat(fmt.Sprint(period%10), valueBytes))
			clock.period(t)
			if c := s.flusher.blocks[0].checkpoint; c != last {
				checkpoints, last = checkpoints+1, c
			}
		}
		written := int(s.flusher.batch.written - was)
		mustClose(t, s)
		restored := &countingTable{modelTable: newModel(0)}
		s = mustOpenIn(t, database.InProcess, testConfig(dir), Parts{Table: restored})
		model.mustEqual(t, restored.modelTable)
		if restored.deltaBytes > bound {
			t.Errorf("%d series: restored from %d bytes of deltas, want at most %d", series+1, restored.deltaBytes, bound)
		}
		if most := periods * valueBytes * 8 / 5; checkpoints == 0 || written > most {
			t.Errorf("%d series: %d bytes written with %d checkpoints, want at most %d", series+1, written, checkpoints, most)
		}
		mustClose(t, s)
	}
}

// A weighingTable measures the heap while it is restored.
type weighingTable struct {
	*modelTable
	deltas      int
	first, most uint64 // bytes that the heap had at the first delta, and at most
}

func (w *weighingTable) RestoreBlock(_ int, _, _ []byte, deltas iter.Seq[[]byte]) error {
	for range deltas {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		if w.deltas++; w.deltas == 1 {
			w.first = now.HeapAlloc
		}
		w.most = max(w.most, now.HeapAlloc)
	}
	return nil
}

// TestRestoreHoldsOneDelta: a restore holds one delta of a block in memory, however many there are.
// It doesn't run beside other tests, which would take memory meanwhile.
func TestRestoreHoldsOneDelta(t *testing.T) {
	const deltas, deltaBytes = 20, 4 * format.PartBytes
	dir, model, s, clock := opened(t, 1)
	model.put(0, 0, "idle", strings.Repeat("x", deltas*deltaBytes))
	clock.period(t)
	for range deltas {
		model.put(0, 1, "busy", strings.Repeat("y", deltaBytes))
		clock.period(t)
	}
	mustClose(t, s)
	table := &weighingTable{modelTable: newModel(0)}
	mustClose(t, mustOpenIn(t, database.InProcess, testConfig(dir), Parts{Table: table}))
	if more := int64(table.most - table.first); table.deltas != deltas || more > 2*deltaBytes {
		t.Errorf("%d deltas took up to %d bytes more than the first", table.deltas, more)
	}
}

// TestLargeDeltasAreDeleted: a checkpoint deletes the large deltas that it includes, in the same
// process or the next one. Small ones stay, and are overwritten.
func TestLargeDeltasAreDeleted(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		dir, model, s, clock := opened(t, 1)
		for _, size := range []int{format.PartBytes / 2, 2 * format.PartBytes, 10} {
			clock.period(t)
			model.put(0, 1, "busy", strings.Repeat("y", size))
		}
		clock.period(t)
		if restart {
			mustClose(t, s)
			model = newModel(0)
			s = mustOpen(t, dir, model)
			clock = newStepper(s)
		}
		s.flusher.blocks[0].needsCheckpoint = true
		clock.period(t)
		mustClose(t, s)
		if n := deltaEntries(t, dir); n != 1 {
			t.Errorf("restart %v: %d entries of deltas are left, want that of the small one", restart, n)
		}
		mustRestore(t, dir, model)
	}
}

// TestDeletionsThatFail: where the transaction with deletions doesn't reach the disk, the next
// checkpoint deletes.
func TestDeletionsThatFail(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 1)
	model.put(0, 1, "busy", strings.Repeat("y", 2*format.PartBytes))
	clock.period(t)
	must(t, s.flusher.putCheckpoint(0, s.seq+1))
	s.flusher.batch.drop()
	clock.period(t)
	mustClose(t, s)
	if n := deltaEntries(t, dir); n != 0 {
		t.Errorf("%d entries of deltas are left", n)
	}
	mustRestore(t, dir, model)
}

// deltaEntries counts the entries of deltas in a closed database, parts included.
func deltaEntries(t *testing.T, dir string) (n int) {
	t.Helper()
	f, err := folder.Open(dir)
	must(t, err)
	opener := database.Opener{Folder: f, Logger: quiet()}
	opened, err := opener.Reopen(database.InProcess)
	must(t, err)
	from := opened.Local.Read()
	count := func(_, _ []byte) error { n++; return nil }
	must(t, from.Each([]byte{format.PrefixDelta}, count))
	must(t, from.Each([]byte{format.PrefixPart, format.PrefixDelta}, count))
	from.Close()
	must(t, errors.Join(opened.DB.Close(), f.Release()))
	return n
}

// A bufferTable reports large buffers of the flusher's that outlive the values in them.
type bufferTable struct {
	*modelTable
	t       *testing.T
	flusher *flusher
}

func (b *bufferTable) AppendDelta(dst []byte, block int) []byte {
	if max(cap(dst), cap(b.flusher.state), cap(b.flusher.names)) > keptBuffer {
		b.t.Errorf("block %d: a buffer of the block before it is kept", block)
	}
	return b.modelTable.AppendDelta(dst, block)
}

func (b *bufferTable) AppendState(dst []byte, block int) []byte {
	if cap(b.flusher.delta) > keptBuffer {
		b.t.Errorf("block %d: its delta is kept beside its state", block)
	}
	return b.modelTable.AppendState(dst, block)
}

// TestLargeBuffersEnd: a flush holds one large delta or state at a time.
func TestLargeBuffersEnd(t *testing.T) {
	t.Parallel()
	table := &bufferTable{modelTable: newModel(3), t: t}
	s := mustOpen(t, t.TempDir(), table)
	table.flusher = &s.flusher
	for block := range 3 {
		table.put(block, 1, "fat", strings.Repeat("x", 2*keptBuffer))
	}
	newStepper(s).period(t)
	for block := range 3 {
		if s.flusher.blocks[block].stateBytes < keptBuffer {
			t.Errorf("block %d: no checkpoint was written", block)
		}
	}
	mustClose(t, s)
}
