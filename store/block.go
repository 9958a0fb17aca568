package store

import "github.com/sluice-metrics/sluice/store/format"

// checkpointPeriods is how many flush intervals pass until a changing block is written whole again:
// fewer than format.DeltaSlots, so a newer checkpoint has been due before a delta is overwritten
// (S3).
const checkpointPeriods = 120

// A savedBlock describes a block's copy on disk. The flusher owns it.
type savedBlock struct {
	last       format.Sequence // newest delta that was taken from the table, written or not
	firstDelta format.Sequence // first delta after the checkpoint, if hasDeltas
	checkpoint format.Sequence // 0: none yet
	names      format.Sequence // 0: none, or they must be written again

	stateGeneration uint8
	namesGeneration uint8

	hasDeltas       bool // there are deltas after the checkpoint
	needsCheckpoint bool // a change that was taken from the table didn't reach the disk

	unwritten uint64 // number of deltas that were taken for the Publisher alone
}

// checkpointDue reports whether a block must be written whole. Each block has its own period among
// checkpointPeriods, so the load is even however many blocks began to change at once.
func (b *savedBlock) checkpointDue(block int, seq format.Sequence) bool {
	if b.needsCheckpoint {
		return true
	}
	if !b.hasDeltas {
		return false
	}
	ownPeriod := seq.OpensPeriod() && seq.Period()%checkpointPeriods == uint64(block)%checkpointPeriods
	return ownPeriod || seq.Period()-b.firstDelta.Period() >= checkpointPeriods
}

// A blockWrite is a delta or a checkpoint in the transaction under way.
type blockWrite struct {
	block      int
	checkpoint *checkpoint // nil: a delta
}

// A checkpoint is what changes in a savedBlock once the checkpoint is written.
type checkpoint struct {
	seq             format.Sequence
	unwritten       uint64 // as when the state was taken: later deltas need another checkpoint
	names           bool   // the names were written too
	stateGeneration uint8
	namesGeneration uint8
}
