package store

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

const (
	// batchGoal is the size of a transaction of small entries: it keeps the storage process, which
	// may share our processor, busy for a millisecond.
	batchGoal = 128 << 10
	// entryOverhead covers what Badger adds to the size of an entry's key and value.
	entryOverhead = 32
	batchEntries  = 8192
)

// A batch collects entries into transactions. The flusher owns it.
//
// The buffer holds the keys and values of the transaction under way, and is overwritten only after
// its commit.
type batch struct {
	db         database.DB
	checkSpace func(bytes int) error         // called before each commit; an error stops the flush
	await      func(work func() error) error // runs work that may wait for the disk
	clock      func(dst []byte) []byte
	seq        format.Sequence
	txn        database.Transaction
	buf        []byte
	bytes      int
	entries    int
	written    uint64
	writes     []blockWrite       // of the transaction under way
	documents  []documentWrite    // of the transaction under way
	committed  func([]blockWrite) // called with writes once they are written
	dropped    func([]blockWrite) // called with writes that will never be
}

// put writes a value: as one entry, or its parts and then the head (S2). Earlier transactions may
// hold the parts; the head is in the one under way.
func (b *batch) put(v format.Blob) error {
	head, err := b.putParts(v)
	if err != nil {
		return err
	}
	return b.putHeads(head)
}

// putParts writes the parts of a value that doesn't fit one entry, and returns the head to write.
func (b *batch) putParts(v format.Blob) (format.Blob, error) {
	v.Seal()
	if v.Parts == 0 {
		return v, nil
	}
	for part := range int(v.Parts) {
		piece := v.Part(part)
		if err := b.reserve(len(piece) + len(v.Key)); err != nil {
			return v, err
		}
		from := len(b.buf)
		b.buf = format.AppendPartKey(b.buf, v.Key, v.Generation, part)
		mid := len(b.buf)
		b.buf = format.AppendPart(b.buf, v.Seq, piece)
		if err := b.set(b.buf[from:mid:mid], b.buf[mid:len(b.buf):len(b.buf)]); err != nil {
			return v, err
		}
	}
	v.Value = nil
	return v, nil
}

// putHeads writes heads, all in one transaction.
func (b *batch) putHeads(heads ...format.Blob) error {
	need := 0
	for _, h := range heads {
		need += len(h.Key) + format.HeaderBytes + len(h.Value) + 2*entryOverhead
	}
	if err := b.reserve(need); err != nil {
		return err
	}
	for _, h := range heads {
		from := len(b.buf)
		b.buf = append(b.buf, h.Key...)
		mid := len(b.buf)
		b.buf = append(h.Header.Append(b.buf), h.Value...)
		if err := b.set(b.buf[from:mid:mid], b.buf[mid:len(b.buf):len(b.buf)]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes an entry.
func (b *batch) remove(key []byte) error {
	if err := b.reserve(len(key)); err != nil {
		return err
	}
	b.bytes += len(key) + entryOverhead
	b.entries++
	return b.txn.Delete(key)
}

// reserve commits the transaction under way if it is large enough, or too small for n more bytes,
// and begins the next.
func (b *batch) reserve(n int) error {
	if b.bytes > batchGoal || b.bytes+n+2*entryOverhead > database.MaxTransactionBytes || b.entries+4 > batchEntries {
		if err := b.commit(); err != nil {
			return err
		}
	}
	if b.txn == nil {
		b.txn = b.db.Begin()
	}
	return nil
}

func (b *batch) set(key, value []byte) error {
	b.bytes += len(key) + len(value) + entryOverhead
	b.entries++
	return b.txn.Set(key, value)
}

// commit commits the transaction under way. It takes the clock last, so the clock is never older
// than the values.
func (b *batch) commit() error {
	if b.txn == nil {
		return nil
	}
	from := len(b.buf)
	b.buf = append(b.buf, format.PrefixClock)
	mid := len(b.buf)
	b.buf = b.clock(binary.BigEndian.AppendUint64(b.buf, uint64(b.seq)))
	err := b.set(b.buf[from:mid:mid], b.buf[mid:len(b.buf):len(b.buf)])
	if err == nil {
		err = b.checkSpace(b.bytes)
	}
	if err == nil {
		err = b.await(b.txn.Commit)
	}
	if err != nil {
		b.drop()
		return err
	}
	b.written += uint64(b.bytes)
	b.committed(b.writes)
	b.reset()
	return nil
}

// drop discards the transaction under way.
func (b *batch) drop() {
	if b.txn != nil {
		b.txn.Discard()
	}
	b.dropped(b.writes)
	b.reset()
}

func (b *batch) reset() {
	b.txn, b.bytes, b.entries = nil, 0, 0
	b.buf, b.writes, b.documents = b.buf[:0], b.writes[:0], b.documents[:0]
}

// checkpointPeriods is how many flush intervals pass until a changing block is written whole again:
// fewer than format.DeltaSlots, so a newer checkpoint has been due before a delta is overwritten
// (S3).
const checkpointPeriods = 120

// fewDeltaBytes of deltas never make a checkpoint due: 1,024 plain numbers that change in each flush
// have half of that in checkpointPeriods. Deltas of large histograms and sets repeat the values of
// earlier ones, and would fill the disk and the next restore.
const fewDeltaBytes = 2 << 20

// A savedBlock describes a block's copy on disk. The flusher owns it.
type savedBlock struct {
	last       format.Sequence // newest delta that was taken from the table, written or not
	firstDelta format.Sequence // first delta after the checkpoint, if hasDeltas
	checkpoint format.Sequence // 0: none yet
	names      format.Sequence // 0: none, or they must be written again

	stateGeneration uint8
	namesGeneration uint8

	stateBytes int // of the checkpoint
	namesBytes int // of its names
	deltaBytes int // of the deltas after it

	hasDeltas       bool // there are deltas after the checkpoint
	needsCheckpoint bool // a change that was taken from the table didn't reach the disk

	unwritten uint64 // number of deltas that were taken for the Publisher alone

	large []largeDelta // on disk, or on their way to it
}

// A largeDelta is a delta that is deleted once a checkpoint includes it. It would stay for DeltaSlots
// periods, or with its parts for good where the next delta in its slot has fewer.
type largeDelta struct {
	seq   format.Sequence
	parts uint16
}

// largeDeltaBytes is the size from which a delta is large. That of 1,024 plain numbers isn't: so an
// ordinary block has no entries that delete.
const largeDeltaBytes = 16 << 10

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

// deltasAreLarge reports whether the deltas after a checkpoint take more than twice its space. So at
// most a third of the bytes written are checkpoints.
func (b *savedBlock) deltasAreLarge() bool {
	return b.deltaBytes > max(fewDeltaBytes, 2*(b.stateBytes+b.namesBytes))
}

// A blockWrite is a delta, a checkpoint or the deletion of a delta in the transaction under way.
type blockWrite struct {
	block      int
	checkpoint *checkpoint // nil: another one
	deleted    bool        // the first of the block's large deltas
}

// A checkpoint is what changes in a savedBlock once the checkpoint is written.
type checkpoint struct {
	seq             format.Sequence
	unwritten       uint64 // as when the state was taken: later deltas need another checkpoint
	names           bool   // the names were written too
	stateBytes      int
	namesBytes      int
	stateGeneration uint8
	namesGeneration uint8
}
