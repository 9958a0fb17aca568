package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/store/format"
)

// loggedBlocks is how many blocks that cannot be restored get a line of their own.
const loggedBlocks = 10

// A restored is what came of reading a database.
type restored struct {
	seq      format.Sequence // the highest on disk
	blocks   []progress
	restored int
	failed   int
	cut      int // restored to a state before the newest, for a write in between is missing
}

// A restore reads every block and hands it to the table, on all cores.
type restore struct {
	db     *badger.DB
	table  Table
	logger *slog.Logger
	keep   func(block int) // saves the entries of a block that could not be restored
	next   atomic.Int64
	mu     sync.Mutex // guards out, all but the elements of out.blocks: a worker owns those of its blocks
	out    restored
}

// run restores the table. An error that is errDamaged came before the table was given any block.
func (r *restore) run(ctx context.Context) (restored, error) {
	clock, blocks, err := r.open()
	if err != nil {
		return restored{}, err
	}
	if clock != nil {
		if err := r.table.RestoreClock(clock); err != nil {
			return restored{}, format.Damaged("its clock: %v", err)
		}
	}
	r.out.blocks = make([]progress, blocks)
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
	return r.out, nil
}

// open reads the clock and counts the blocks.
func (r *restore) open() (clock []byte, blocks int, err error) {
	from := beginRead(r.db)
	defer from.Close()
	blocks = max(lastBlock(from, format.PrefixCheckpoint), lastBlock(from, format.PrefixDelta)) + 1
	found, err := from.Get([]byte{format.PrefixClock}, func(value []byte) error {
		if len(value) < 8 {
			return format.Damaged("its clock is cut short")
		}
		r.out.seq = format.Sequence(binary.BigEndian.Uint64(value))
		clock = append([]byte{}, value[8:]...)
		return nil
	})
	if err == nil && !found && blocks > 0 {
		err = format.Damaged("it has blocks but no clock")
	}
	return clock, blocks, err
}

// lastBlock is the highest block number among the keys with a prefix, -1 if there are none.
func lastBlock(from readTxn, prefix byte) int {
	block, ok := format.BlockOf(from.Last([]byte{prefix}))
	if !ok {
		return -1
	}
	return block
}

// work takes one block after the other until there are no more.
func (r *restore) work(ctx context.Context) {
	from := beginRead(r.db)
	defer from.Close()
	blobs := format.NewReader(from)
	for ctx.Err() == nil {
		block := int(r.next.Add(1) - 1)
		if block >= len(r.out.blocks) {
			return
		}
		c := readBlock(from, blobs, block)
		if c.err == nil && c.found {
			c.err = restoreBlock(r.table, block, c)
		}
		r.out.blocks[block] = c.progress()
		r.enter(block, c)
		blobs.Reset()
	}
}

func (r *restore) enter(block int, c content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.seq = max(r.out.seq, c.newest)
	switch {
	case c.err != nil:
		if r.out.failed++; r.out.failed <= loggedBlocks {
			r.logger.Error("a block of series cannot be restored", "block", block, "reason", c.err)
			r.keep(block)
		}
	case c.found:
		r.out.restored++
		if c.cut {
			r.out.cut++
		}
	}
}

// restoreBlock hands a block to the table. Bytes from a disk may be anything: a panic over them is a fault
// of this block alone.
func restoreBlock(table Table, block int, c content) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return table.RestoreBlock(block, c.names, c.state, c.deltas)
}

// A content is what the disk holds of a block.
type content struct {
	found        bool
	names, state []byte
	deltas       [][]byte

	checkpoint, namesHeader format.Header
	first, last, newest     format.Sequence // first and last delta to replay; the highest sequence of all
	cut                     bool
	err                     error
}

// progress is where the flush goes on from.
func (c *content) progress() progress {
	p := progress{
		last: max(c.last, c.checkpoint.Seq), since: c.first,
		checkpoint: c.checkpoint.Seq, names: c.checkpoint.Link,
		stateGeneration: c.checkpoint.Generation, namesGeneration: c.namesHeader.Generation,
		dirty: len(c.deltas) > 0, broken: c.cut || c.err != nil,
	}
	if c.err != nil {
		p.names = 0
	}
	return p
}

func readBlock(from readTxn, blobs *format.Reader, block int) (c content) {
	var found bool
	if c.checkpoint, c.state, found, c.err = blobs.Head(format.AppendBlockKey(nil, format.PrefixCheckpoint, block)); found {
		c.found = true
		c.newest = c.checkpoint.Seq
		var namesErr error
		c.namesHeader, c.names, found, namesErr = blobs.Head(format.AppendBlockKey(nil, format.PrefixNames, block))
		if c.err = errors.Join(c.err, namesErr); c.err == nil && (!found || c.namesHeader.Seq != c.checkpoint.Link) {
			c.err = errors.New("its checkpoint and its names are of different flushes")
		}
	}
	c.err = errors.Join(c.err, c.readDeltas(from, blobs, block))
	if c.err == nil && c.cut && !c.found {
		c.err = errors.New("it has no checkpoint, and its first delta is missing")
	}
	return c
}

// A delta is one as it was read; err says what is wrong with it alone.
type delta struct {
	format.Header
	value []byte
	err   error
}

func (c *content) readDeltas(from readTxn, blobs *format.Reader, block int) error {
	var deltas []delta
	err := from.Each(format.AppendBlockKey(nil, format.PrefixDelta, block), func(key, entry []byte) error {
		h, value, err := blobs.Blob(key, entry, c.checkpoint.Seq)
		c.newest = max(c.newest, h.Seq)
		if errors.Is(err, format.ErrHeader) {
			c.cut = true // if it was not an old one, the chain ends before it
			return nil
		}
		if h.Seq > c.checkpoint.Seq {
			deltas = append(deltas, delta{h, value, err})
		}
		return nil
	})
	slices.SortFunc(deltas, func(a, b delta) int {
		if a.Seq < b.Seq {
			return -1
		}
		return 1
	})
	c.chain(deltas)
	return err
}

// chain takes the deltas that follow one another (S1). One whose predecessor is neither the one before it nor
// in the checkpoint speaks of a state that is not there.
func (c *content) chain(deltas []delta) {
	c.last = c.checkpoint.Seq
	for _, d := range deltas {
		if d.err != nil || d.Link > c.checkpoint.Seq && d.Link != c.last {
			c.cut = true
			return
		}
		if len(c.deltas) == 0 {
			c.first = d.Seq
		}
		c.deltas, c.last, c.found = append(c.deltas, d.value), d.Seq, true
	}
}
