package store

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/store/format"
)

const (
	// batchBytes bounds a transaction. Badger refuses what is above 15 % of its memtable: 629,145 bytes of the smaller one.
	batchBytes = 600 << 10
	// batchGoal is what a transaction holds if its entries are small: the database's process is busy with it for a millisecond,
	// and may have the same processor as we.
	batchGoal = 128 << 10
	// entryOverhead covers what Badger adds to an entry's key and value when it measures it.
	entryOverhead = 32
	batchEntries  = 8192
)

// An outcome is what a block has gained once a batch is on disk.
type outcome struct {
	block      int
	checkpoint *checkpoint
}

// A batch collects entries up to the bound of a transaction. Its owner is the flush.
//
// The buffer holds keys and values of the running transaction and may be overwritten only after commit.
type batch struct {
	db       database
	room     func(bytes int) error // says before every commit whether the disk can take it
	clock    func(dst []byte) []byte
	seq      format.Sequence
	txn      transaction
	buf      []byte
	bytes    int
	entries  int
	written  uint64
	outcomes []outcome
	onDisk   func([]outcome)
	lost     func([]outcome)
}

// put writes a value: as one entry, or its parts and then the head. The parts may go out in a transaction
// of their own; the head stays in the running one.
func (b *batch) put(v format.Blob) error {
	head, err := b.putParts(v)
	if err != nil {
		return err
	}
	return b.putHeads(head)
}

// putParts writes what does not fit the head, and returns the head to write.
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

// putHeads writes heads in one transaction.
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

// reserve commits the running transaction if it holds enough, or n more bytes would be too many.
func (b *batch) reserve(n int) error {
	if b.bytes > batchGoal || b.bytes+n+2*entryOverhead > batchBytes || b.entries+4 > batchEntries {
		if err := b.commit(); err != nil {
			return err
		}
	}
	if b.txn == nil {
		b.txn = b.db.begin()
	}
	return nil
}

func (b *batch) set(key, value []byte) error {
	b.bytes += len(key) + len(value) + entryOverhead
	b.entries++
	return b.txn.Set(key, value)
}

// commit writes what was collected, with the clock: taken last, so that it is never older than the values
// beside it.
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
		err = b.room(b.bytes)
	}
	if err == nil {
		err = b.txn.Commit()
	}
	if err != nil {
		b.drop()
		return err
	}
	b.written += uint64(b.bytes)
	b.onDisk(b.outcomes)
	b.reset()
	return nil
}

// drop gives up what was collected.
func (b *batch) drop() {
	if b.txn != nil {
		b.txn.Discard()
	}
	b.lost(b.outcomes)
	b.reset()
}

func (b *batch) reset() {
	b.txn, b.bytes, b.entries = nil, 0, 0
	b.buf, b.outcomes = b.buf[:0], b.outcomes[:0]
}
