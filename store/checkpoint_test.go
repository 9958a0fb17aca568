package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/store/database"
)

// A countingTable counts the bytes of deltas that it is restored from.
type countingTable struct {
	*modelTable
	deltaBytes int
}

func (c *countingTable) RestoreBlock(block int, names, state []byte, deltas [][]byte) error {
	for _, d := range deltas {
		c.deltaBytes += len(d)
	}
	return c.modelTable.RestoreBlock(block, names, state, deltas)
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
