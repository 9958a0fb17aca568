package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// makeChain flushes a counter in block 0 n times, beside a block that doesn't change.
func makeChain(t *testing.T, dir string, n int) *modelTable {
	t.Helper()
	model := newModel(2)
	s := mustOpen(t, dir, model)
	clock := newStepper(s)
	for i := range n {
		model.put(0, 3, "counter", fmt.Sprint(i))
		model.put(1, 3, "other", "stays")
		clock.period(t)
	}
	mustClose(t, s)
	return model
}

// TestLostDelta holds S1: where a delta is missing, the block is restored to the state before it,
// although newer deltas exist. After the next flush it is complete again.
func TestLostDelta(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(txn database.Transaction, key []byte) error{
		"missing":   func(txn database.Transaction, key []byte) error { return txn.Delete(key) },
		"cut short": func(txn database.Transaction, key []byte) error { return txn.Set(key, []byte("garb")) },
		"garbage":   func(txn database.Transaction, key []byte) error { return txn.Set(key, make([]byte, 100)) },
		"another": func(txn database.Transaction, key []byte) error {
			return txn.Set(key, format.Header{Seq: 7 << 8, Link: 6 << 8, Length: 9}.Append(nil))
		},
	} {
		t.Run(name, func(t *testing.T) { testLostDelta(t, lose) })
	}
}

func testLostDelta(t *testing.T, lose func(txn database.Transaction, key []byte) error) {
	dir := t.TempDir()
	makeChain(t, dir, 10)
	editDatabase(t, dir, func(txn database.Transaction) error { return lose(txn, format.AppendDeltaKey(nil, 0, 7<<8)) })
	restored := newModel(0)
	s := mustOpen(t, dir, restored)
	if got := restored.blocks[0].series[3].value; got != "5" {
		t.Fatalf("restored %q, want 5: the seventh flush, which wrote 6, is lost", got)
	}
	if got := restored.blocks[1].series[3].value; got != "stays" {
		t.Fatalf("the other block: %q", got)
	}
	if _, detail := s.Detail(); !strings.Contains(detail, "1 only to an earlier state") {
		t.Fatalf("Detail: %s", detail)
	}
	clock := newStepper(s)
	clock.period(t)
	restored.put(0, 3, "counter", "77")
	clock.period(t)
	mustClose(t, s)
	again := newModel(0)
	mustOpen(t, dir, again)
	restored.mustEqual(t, again)
}

// TestBlockThatCannotBeRestored: the other blocks are restored, the block's entries are saved to a
// file, and the block can be used again.
func TestBlockThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	names, garbage := format.AppendBlockKey(nil, format.PrefixNames, 0), []byte(strings.Repeat("garbage", 10))
	for name, c := range map[string]struct {
		periods int
		table   *modelTable
		spoil   func(txn database.Transaction) error // may be nil
	}{
		"refused": {4, &modelTable{spoilt: map[int]bool{0: true}}, nil},
		"panic":   {4, &modelTable{panics: map[int]bool{0: true}}, nil},
		"checkpoint garbage": {200, newModel(0), func(txn database.Transaction) error {
			return txn.Set(format.AppendBlockKey(nil, format.PrefixCheckpoint, 0), garbage)
		}},
		"names garbage": {200, newModel(0), func(txn database.Transaction) error { return txn.Set(names, garbage) }},
		"names missing": {200, newModel(0), func(txn database.Transaction) error { return txn.Delete(names) }},
		"first delta missing": {4, newModel(0), func(txn database.Transaction) error {
			return txn.Delete(format.AppendDeltaKey(nil, 0, 1<<8)) // and there is no checkpoint
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			makeChain(t, dir, c.periods)
			if c.spoil != nil {
				editDatabase(t, dir, c.spoil)
			}
			mustFailBlock(t, dir, c.table, 0)
		})
	}
	t.Run("a part of another flush", func(t *testing.T) {
		dir, model, s, clock := opened(t, 2)
		model.put(0, 1, "fat", strings.Repeat("x", 3*format.PartBytes))
		model.put(1, 3, "other", "stays")
		clock.period(t)
		s.flusher.blocks[0].needsCheckpoint = true
		clock.period(t)
		generation := s.flusher.blocks[0].stateGeneration
		mustClose(t, s)
		editDatabase(t, dir, func(txn database.Transaction) error {
			key := format.AppendPartKey(nil, format.AppendBlockKey(nil, format.PrefixCheckpoint, 0), generation, 1)
			return txn.Set(key, []byte("12345678 another"))
		})
		mustFailBlock(t, dir, newModel(0), 0)
	})
}

// However many blocks cannot be restored, what each had is kept before it is written over.
func TestAllBlocksThatFailAreKept(t *testing.T) {
	const blocks = 3 * maxLoggedBlocks
	dir, model, s, clock := opened(t, blocks)
	for block := range blocks {
		model.put(block, 3, "some", "value")
	}
	clock.period(t)
	mustClose(t, s)
	table := newModel(0)
	table.spoilt = map[int]bool{}
	for block := range blocks {
		table.spoilt[block] = true
	}
	s = mustOpen(t, dir, table)
	clock = newStepper(s)
	clock.period(t)
	mustClose(t, s)
	if kept, _ := filepath.Glob(filepath.Join(dir, "block-*.damaged-*")); len(kept) != blocks {
		t.Errorf("%d blocks were kept, want %d", len(kept), blocks)
	}
}

func mustFailBlock(t *testing.T, dir string, table *modelTable, block int) {
	t.Helper()
	s := mustOpen(t, dir, table)
	if s.count.failedBlocks.Load() != 1 || s.count.restoredBlocks.Load() != 1 || !table.done {
		t.Fatalf("failed %d, restored %d", s.count.failedBlocks.Load(), s.count.restoredBlocks.Load())
	}
	if got := table.blocks[1].series[3].value; got != "stays" {
		t.Fatalf("the other block: %q", got)
	}
	if _, detail := s.Detail(); !strings.Contains(detail, "1 could not be restored") {
		t.Fatalf("Detail: %s", detail)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("block-%d.damaged-*", block)))
	if len(kept) != 1 || fileSize(t, kept[0]) < 50 {
		t.Fatalf("kept: %v", kept)
	}
	table.blocks[block].series = map[uint16]modelSeries{}
	table.put(block, 9, "new", "1")
	clock := newStepper(s)
	clock.period(t)
	table.put(block, 9, "new", "2")
	clock.period(t)
	mustClose(t, s)
	again := newModel(0)
	s = mustOpen(t, dir, again)
	table.mustEqual(t, again)
	if s.count.failedBlocks.Load() != 0 {
		t.Fatal("the block fails again")
	}
}

// TestHalfACheckpoint holds S2: parts of a checkpoint whose head was never written don't spoil the
// checkpoint before.
func TestHalfACheckpoint(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 1)
	for round := range 3 {
		model.put(0, 1, "fat", strings.Repeat(fmt.Sprint(round), 9*format.PartBytes))
		clock.period(t)
		s.flusher.blocks[0].needsCheckpoint = true
		clock.period(t)

		was := s.flusher.batch.written
		model.put(0, 1, "fat", strings.Repeat("y", 9*format.PartBytes))
		must(t, s.flusher.putCheckpoint(0, s.seq+1))
		s.flusher.batch.drop() // the head, and the last of the parts
		if s.flusher.batch.written < was+format.PartBytes {
			t.Fatal("no part was written")
		}
		model.put(0, 1, "fat", strings.Repeat(fmt.Sprint(round), 9*format.PartBytes))
		mustRestore(t, crashCopy(t, dir), model)
	}
}
