package store

import (
	"encoding/binary"
)

const (
	// batchBytes bounds a transaction. Badger refuses what is above 15 % of its memtable: 629,145 bytes of the smaller one.
	batchBytes = 600 << 10
	// batchGoal is what a transaction holds if its entries are small: the database's process is busy with it for a millisecond,
	// and may have the same processor as we.
	batchGoal = 128 << 10
	// partBytes bounds one entry's value, so that a checkpoint and its names fit one batch.
	partBytes = 256 << 10
	// entryOverhead covers what Badger adds to an entry's key and value when it measures it.
	entryOverhead = 32
	batchEntries  = 8192
)

// A blob is one value on its way to the disk.
type blob struct {
	key   []byte
	value []byte
	header
}

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
	seq      sequence
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
func (b *batch) put(v blob) error {
	head, err := b.putParts(v)
	if err != nil {
		return err
	}
	return b.putHeads(head)
}

// putParts writes what does not fit the head, and returns the head to write.
func (b *batch) putParts(v blob) (blob, error) {
	v.fill()
	if v.parts == 0 {
		return v, nil
	}
	rest := v.value
	for part := range int(v.parts) {
		piece := rest[:min(len(rest), partBytes)]
		rest = rest[len(piece):]
		if err := b.reserve(len(piece) + len(v.key)); err != nil {
			return v, err
		}
		from := len(b.buf)
		b.buf = appendPartKey(b.buf, v.key, v.generation, part)
		mid := len(b.buf)
		b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(v.seq))
		b.buf = append(b.buf, piece...)
		if err := b.set(b.buf[from:mid:mid], b.buf[mid:len(b.buf):len(b.buf)]); err != nil {
			return v, err
		}
	}
	v.value = nil
	return v, nil
}

// putHeads writes heads in one transaction.
func (b *batch) putHeads(heads ...blob) error {
	need := 0
	for _, h := range heads {
		need += len(h.key) + headerBytes + len(h.value) + 2*entryOverhead
	}
	if err := b.reserve(need); err != nil {
		return err
	}
	for _, h := range heads {
		from := len(b.buf)
		b.buf = append(b.buf, h.key...)
		mid := len(b.buf)
		b.buf = append(h.header.append(b.buf), h.value...)
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
	b.buf = append(b.buf, clockKey)
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

// fill completes the header for the value.
func (v *blob) fill() {
	v.sum, v.length = checksum(v.value), uint32(len(v.value))
	if len(v.value) > partBytes {
		v.parts = uint16((len(v.value) + partBytes - 1) / partBytes)
	}
}
