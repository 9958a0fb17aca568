package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// maxLoggedBlocks bounds the log lines about blocks, and about documents, that can't be restored.
const maxLoggedBlocks = 10

// A restored is the result of a restore.
type restored struct {
	seq      format.Sequence // the highest on disk
	blocks   []savedBlock
	restored int
	failed   int
	cut      int // restored to a state before the newest, because a write in between is missing
	// unfinished: the database is of a process that had not written all of its blocks yet.
	unfinished bool
}

// A restore reads every block and passes it to the table, on all processors.
type restore struct {
	db     *database.Local
	table  Table
	logger *slog.Logger
	keep   func(block int) // saves the entries of a block that can't be restored
	next   atomic.Int64    // the block to read next
	mu     sync.Mutex      // guards result; but a worker owns the elements of result.blocks that it reads
	result restored
}

// run restores the table. With format.ErrDamaged, the table was given no block.
func (r *restore) run(ctx context.Context) (restored, error) {
	clock, blocks, err := r.readClock()
	if err != nil {
		return restored{}, err
	}
	if clock != nil {
		if err := r.table.RestoreClock(clock); err != nil {
			return restored{}, format.Damaged("its clock: %v", err)
		}
	}
	r.result.blocks = make([]savedBlock, blocks)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(1, blocks)) {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return restored{}, err
	}
	if err := r.table.RestoreDone(); err != nil {
		return restored{}, fmt.Errorf("store: the table cannot be restored: %w", err)
	}
	return r.result, nil
}

// readClock reads the clock and counts the blocks.
func (r *restore) readClock() (clock []byte, blocks int, err error) {
	from := r.db.Read()
	defer from.Close()
	blocks = max(lastBlock(from, format.PrefixCheckpoint), lastBlock(from, format.PrefixDelta)) + 1
	found, err := from.Get([]byte{format.PrefixClock}, func(value []byte) error {
		if len(value) < 8 {
			return format.Damaged("its clock is cut short")
		}
		r.result.seq = format.Sequence(binary.BigEndian.Uint64(value))
		clock = append([]byte{}, value[8:]...)
		return nil
	})
	if err == nil && !found && blocks > 0 {
		err = format.Damaged("it has blocks but no clock")
	}
	if err == nil {
		r.result.unfinished, err = from.Get(unfinishedKey, func([]byte) error { return nil })
	}
	return clock, blocks, err
}

// lastBlock is the highest block number among the keys with a prefix, -1 if there are none.
func lastBlock(from database.Reader, prefix byte) int {
	block, ok := format.BlockOf(from.Last([]byte{prefix}))
	if !ok {
		return -1
	}
	return block
}

// work restores one block after the other until there are no more.
func (r *restore) work(ctx context.Context) {
	from := r.db.Read()
	defer from.Close()
	blobs, deltas := format.NewReader(from), format.NewReader(from)
	for ctx.Err() == nil {
		block := int(r.next.Add(1) - 1)
		if block >= len(r.result.blocks) {
			return
		}
		b := readBlock(from, blobs, block)
		if b.err == nil && (b.found || b.cut || len(b.deltas) > 0) {
			b.err = restoreBlock(r.table, block, &b, deltas)
		}
		r.result.blocks[block] = b.saved()
		r.record(block, b)
		blobs.Reset()
	}
}

// record counts the result of one block.
func (r *restore) record(block int, b diskBlock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.seq = max(r.result.seq, b.newest)
	switch {
	case b.err != nil:
		if r.result.failed++; r.result.failed <= maxLoggedBlocks {
			r.logger.Error("a block of series cannot be restored", "block", block, "reason", b.err)
		}
		r.keep(block)
	case b.found:
		r.result.restored++
		if b.cut {
			r.result.cut++
		}
	}
}

// restoreBlock passes a block to the table. A panic over bytes from a disk is a fault of this block
// alone.
func restoreBlock(table Table, block int, b *diskBlock, deltas *format.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := table.RestoreBlock(block, b.names, b.state, b.chain(deltas)); err != nil {
		return err
	}
	if !b.found {
		return errors.New("it has no checkpoint, and its first delta is missing")
	}
	return nil
}

// A diskBlock is a block as it was read. Its bytes belong to the blob reader.
type diskBlock struct {
	found        bool // there is a checkpoint, or a delta was replayed
	names, state []byte
	deltas       []delta // after the checkpoint, by sequence
	large        []largeDelta

	checkpoint, namesHeader format.Header
	first, last             format.Sequence // of the deltas that were replayed
	deltaBytes              int             // of the deltas that were replayed
	newest                  format.Sequence // the highest of all entries
	cut                     bool            // a delta is missing or unreadable, and so are the changes after it
	err                     error           // why the block can't be restored
}

// A delta is one delta on disk. Its value is read when it is replayed.
type delta struct {
	format.Header
	key []byte
}

// saved is the block's copy on disk, from which the flush continues.
func (b *diskBlock) saved() savedBlock {
	s := savedBlock{
		last:            b.last,
		firstDelta:      b.first,
		checkpoint:      b.checkpoint.Seq,
		names:           b.checkpoint.Link,
		stateGeneration: b.checkpoint.Generation,
		namesGeneration: b.namesHeader.Generation,
		stateBytes:      len(b.state),
		namesBytes:      len(b.names),
		deltaBytes:      b.deltaBytes,
		hasDeltas:       b.first > 0,
		needsCheckpoint: b.cut || b.err != nil,
		large:           b.large,
	}
	if b.err != nil {
		s.names = 0
	}
	return s
}

func readBlock(from database.Reader, blobs *format.Reader, block int) (b diskBlock) {
	var found bool
	if b.checkpoint, b.state, found, b.err = blobs.Head(format.AppendBlockKey(nil,
		format.PrefixCheckpoint, block)); found {
		b.found = true
		b.newest = b.checkpoint.Seq
		var namesErr error
		b.namesHeader, b.names, found, namesErr = blobs.Head(format.AppendBlockKey(nil, format.PrefixNames, block))
		if b.err = errors.Join(b.err, namesErr); b.err == nil && (!found || b.namesHeader.Seq != b.checkpoint.Link) {
			b.err = errors.New("its checkpoint and its names are of different flushes")
		}
	}
	b.last = b.checkpoint.Seq
	b.err = errors.Join(b.err, b.findDeltas(from, block))
	return b
}

// findDeltas finds the deltas after the checkpoint, and all that are large. Its error is the
// database's.
func (b *diskBlock) findDeltas(from database.Reader, block int) error {
	err := from.Each(format.AppendBlockKey(nil, format.PrefixDelta, block), func(key, entry []byte) error {
		h, _, err := format.ParseHeader(entry)
		b.newest = max(b.newest, h.Seq)
		if h.Length >= largeDeltaBytes && h.Parts == format.Parts(int(h.Length)) {
			b.large = append(b.large, largeDelta{h.Seq, h.Parts})
		}
		switch {
		case err != nil:
			b.cut = true // unless it was an old delta, the chain ends before it
		case h.Seq > b.checkpoint.Seq:
			b.deltas = append(b.deltas, delta{h, bytes.Clone(key)})
		}
		return nil
	})
	slices.SortFunc(b.deltas, func(a, b delta) int { return cmp.Compare(a.Seq, b.Seq) })
	return err
}

// chain reads the deltas that follow one another (S1), each when the one before it has been replayed:
// all of them may take a multiple of the table's memory. A delta whose predecessor is neither the one
// before it nor included in the checkpoint belongs to a state that is missing.
func (b *diskBlock) chain(blobs *format.Reader) iter.Seq[[]byte] {
	return func(replay func([]byte) bool) {
		for _, d := range b.deltas {
			if d.Link > b.checkpoint.Seq && d.Link != b.last {
				b.cut = true
				return
			}
			blobs.Reset()
			_, value, found, err := blobs.Head(d.key)
			if err != nil || !found {
				b.cut = true
				return
			}
			if b.first == 0 {
				b.first = d.Seq
			}
			b.found, b.last, b.deltaBytes = true, d.Seq, b.deltaBytes+len(value)
			if !replay(value) {
				return
			}
		}
	}
}
