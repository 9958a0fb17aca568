package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// This file reads downward: a flush step of the flush goroutine; one flush; one block, which is
// written as a delta and in turn as a checkpoint; the result of a transaction.

// flushStep is one flush, whatever state the disk is in.
func (s *Store) flushStep(began time.Time) error {
	callers := s.syncs.takeWaiting()
	soon := s.soon.Swap(false)
	s.urgent = callers != nil || soon
	err := s.ready(began)
	if err == nil {
		err = s.flush(began)
		switch {
		case errors.Is(err, database.ErrDiskFull):
			s.pause(err.Error(), began)
		case err != nil:
			s.count.failures.Add(1)
			s.mustReopen = true
			s.fail(err, began)
		}
	}
	if err != nil && s.flusher.publisher != nil {
		s.publishOnly(began)
	}
	s.urgent = false
	switch {
	case callers == nil:
	case err != nil:
		callers.end(fmt.Errorf("store: %w: %w", ErrNotPersisting, err))
	default:
		s.syncs.addFlushed(callers)
	}
	return err
}

// isUrgent reports whether a caller of Sync or FlushSoon, or the end of the process, waits for this
// flush or for the next one.
func (s *Store) isUrgent() bool {
	return s.urgent || s.ending.Load() || s.soon.Load() || s.syncs.isWaiting()
}

// number gives a flush its sequence number.
func (s *Store) number(began time.Time) {
	samePeriod := began.Before(s.periodStart.Add(s.cfg.FlushInterval - time.Millisecond))
	s.seq = s.seq.Next(samePeriod)
	if s.seq.OpensPeriod() {
		s.periodStart = began
	}
}

// flush numbers the flush, runs it and counts it.
func (s *Store) flush(began time.Time) error {
	s.number(began)
	err := s.flusher.run(s.db, s.seq)
	s.count.flushNanos.Add(int64(time.Since(began) - s.flusher.pacer.rested))
	s.count.writtenBytes.Store(s.flusher.batch.written)
	if err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	s.count.flushes.Add(1)
	s.retryAfter = 0
	s.status.flushed(began)
	return nil
}

// keptBuffer is how large a scratch buffer may stay when its value is written. The delta and the state
// of a block of large histograms may each take as much memory as the histograms.
const keptBuffer = 4 << 20

// A flusher writes the table's changes. The flush goroutine owns it.
type flusher struct {
	table     Table
	blocks    []savedBlock
	documents dirtyDocuments
	batch     batch
	pacer     pacer
	publisher *blockPublisher // nil: no Publisher
	// unfinished: the database is a new one, and doesn't have all blocks of the table yet.
	unfinished bool

	delta, state, names []byte // scratch
}

func (f *flusher) init(table Table, documents Documents, spread time.Duration, urgent func() bool) {
	f.table = table
	f.pacer.spread, f.pacer.urgent = spread, urgent
	f.documents.init(documents)
	f.batch.clock = table.AppendClock
	f.batch.await = f.await
	f.batch.committed = f.committed
	f.batch.dropped = f.dropped
}

// run is one flush: the delta of every block that changed, the checkpoints that are due, the
// documents that changed. After an error, the changes of blocks that it didn't reach are still with
// the table; blocks whose changes were lost need a checkpoint.
func (f *flusher) run(db database.DB, seq format.Sequence) error {
	f.batch.db, f.batch.seq = db, seq
	f.documents.begin()
	f.grow(f.table.Blocks())
	f.pacer.begin()
	if f.publisher != nil {
		f.publisher.ahead = false
	}
	if f.unfinished {
		if err := f.beginDatabase(); err != nil {
			return err
		}
	}
	for block := range f.table.Blocks() {
		f.grow(block + 1)
		if err := f.block(block, seq); err != nil {
			f.blocks[block].needsCheckpoint = true
			f.batch.drop()
			return err
		}
		f.trim()
		f.pacer.step()
	}
	if f.unfinished {
		if err := f.batch.remove(unfinishedKey); err != nil {
			f.batch.drop()
			return err
		}
	}
	if err := f.putDocuments(); err != nil {
		return err
	}
	f.unfinished = false
	if f.publisher != nil {
		f.publisher.flushed()
	}
	return nil
}

// unfinishedKey is the key of an entry that a database has until all blocks are in it.
var unfinishedKey = []byte{format.PrefixUnfinished}

// beginDatabase writes what a new database must have before blocks: that it is unfinished, which the next start
// tells, and all documents, so no part of the table is there without them.
func (f *flusher) beginDatabase() error {
	if err := f.batch.reserve(0); err != nil {
		return err
	}
	if err := f.batch.set(unfinishedKey, nil); err != nil {
		f.batch.drop()
		return err
	}
	return f.putDocuments()
}

// putDocuments writes the documents that changed, and commits them with what came before.
func (f *flusher) putDocuments() error {
	f.documents.collect()
	if err := f.documents.put(&f.batch, &f.pacer); err != nil {
		f.batch.drop()
		return err
	}
	if err := f.batch.reserve(0); err != nil {
		return err
	}
	if err := f.batch.commit(); err != nil { // with the clock, even if nothing else changed
		return err
	}
	f.documents.flushed()
	return nil
}

func (f *flusher) block(block int, seq format.Sequence) error {
	saved := &f.blocks[block]
	f.delta = f.table.AppendDelta(f.delta[:0], block)
	if len(f.delta) > 0 {
		if f.publisher != nil {
			f.publisher.to.PublishDelta(block, f.delta)
		}
		if err := f.putDelta(block, seq); err != nil {
			return err
		}
	}
	changed := len(f.delta) > 0
	f.trim()
	if saved.checkpointDue(block, seq) {
		if err := f.putCheckpoint(block, seq); err != nil {
			return err
		}
	}
	// PublishWritten must count no delta that the database lacks, alone or in a checkpoint.
	if changed && f.publisher != nil && !f.publisher.ahead {
		f.publisher.put++
	}
	return nil
}

// putDelta writes a block's changes, linked to the block's write before.
func (f *flusher) putDelta(block int, seq format.Sequence) error {
	saved := &f.blocks[block]
	link := saved.last
	saved.last = seq
	if !saved.hasDeltas {
		saved.hasDeltas, saved.firstDelta = true, seq
	}
	saved.deltaBytes += len(f.delta)
	if saved.needsCheckpoint || saved.deltasAreLarge() ||
		seq.Period()-saved.firstDelta.Period() >= format.DeltaSlots {
		saved.needsCheckpoint = true // it follows at once and includes the delta
		return nil
	}
	delta := format.Blob{
		Key:    format.AppendDeltaKey(nil, block, seq),
		Value:  f.delta,
		Header: format.Header{Seq: seq, Link: link},
	}
	if len(f.delta) >= largeDeltaBytes {
		saved.large = append(saved.large, largeDelta{seq, format.Parts(len(f.delta))})
	}
	if err := f.batch.put(delta); err != nil {
		return err
	}
	f.batch.writes = append(f.batch.writes, blockWrite{block: block})
	return nil
}

// putCheckpoint writes a block whole. The names follow the state, so that every series of the state
// has its name. They are written only if they changed.
func (f *flusher) putCheckpoint(block int, seq format.Sequence) error {
	saved := &f.blocks[block]
	write := &checkpoint{seq: seq, unwritten: saved.unwritten,
		stateGeneration: saved.stateGeneration ^ 1, namesGeneration: saved.namesGeneration,
		namesBytes: saved.namesBytes}
	f.state = f.table.AppendState(f.state[:0], block)
	write.stateBytes = len(f.state)
	write.names = f.table.NamesChanged(block) || saved.names == 0
	link := saved.names
	var heads []format.Blob
	if write.names {
		f.names = f.table.AppendNames(f.names[:0], block)
		write.namesBytes = len(f.names)
		saved.names = 0 // until they are written
		write.namesGeneration ^= 1
		link = seq
		head, err := f.batch.putParts(format.Blob{
			Key:    format.AppendBlockKey(nil, format.PrefixNames, block),
			Value:  f.names,
			Header: format.Header{Seq: seq, Generation: write.namesGeneration},
		})
		if err != nil {
			return err
		}
		heads = append(heads, head)
	}
	head, err := f.batch.putParts(format.Blob{
		Key:    format.AppendBlockKey(nil, format.PrefixCheckpoint, block),
		Value:  f.state,
		Header: format.Header{Seq: seq, Link: link, Generation: write.stateGeneration},
	})
	if err != nil {
		return err
	}
	if err := f.batch.putHeads(append(heads, head)...); err != nil {
		return err
	}
	f.batch.writes = append(f.batch.writes, blockWrite{block: block, checkpoint: write})
	return f.deleteDeltas(block)
}

// deleteDeltas deletes a block's large deltas. It follows the heads of a checkpoint that includes
// them (S3).
func (f *flusher) deleteDeltas(block int) error {
	for _, d := range f.blocks[block].large {
		head := format.AppendDeltaKey(nil, block, d.seq)
		if err := f.batch.remove(head); err != nil {
			return err
		}
		for part := range int(d.parts) {
			if err := f.batch.remove(format.AppendPartKey(nil, head, 0, part)); err != nil {
				return err
			}
		}
		f.batch.writes = append(f.batch.writes, blockWrite{block: block, deleted: true})
	}
	return nil
}

// committed records that a transaction is written.
func (f *flusher) committed(writes []blockWrite) {
	for _, w := range writes {
		c, saved := w.checkpoint, &f.blocks[w.block]
		if w.deleted {
			saved.large = saved.large[1:]
		}
		if c == nil {
			continue
		}
		saved.checkpoint, saved.stateGeneration, saved.namesGeneration = c.seq, c.stateGeneration, c.namesGeneration
		saved.stateBytes, saved.namesBytes, saved.deltaBytes = c.stateBytes, c.namesBytes, 0
		saved.hasDeltas, saved.needsCheckpoint = false, saved.unwritten != c.unwritten
		if c.names {
			saved.names = c.seq
		}
	}
	f.documents.committed(f.batch.documents)
	if f.publisher != nil {
		f.publisher.written()
	}
}

// dropped records that a transaction didn't reach the disk (S4).
func (f *flusher) dropped(writes []blockWrite) {
	for _, w := range writes {
		f.blocks[w.block].needsCheckpoint = true
	}
}

// writeAll makes the next flush write every block and document whole, because the database is a new
// one.
func (f *flusher) writeAll() {
	f.unfinished = true
	f.documents.writeAll()
	for i := range f.blocks {
		f.blocks[i] = savedBlock{last: f.blocks[i].last, needsCheckpoint: true}
	}
}

func (f *flusher) grow(blocks int) {
	for len(f.blocks) < blocks {
		f.blocks = append(f.blocks, savedBlock{})
	}
}

func (f *flusher) trim() {
	for _, b := range []*[]byte{&f.delta, &f.state, &f.names} {
		if cap(*b) > keptBuffer {
			*b = nil
		}
	}
}
