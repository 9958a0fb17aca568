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
)

// loggedBlocks is how many blocks that cannot be restored get a line of their own.
const loggedBlocks = 10

// A restored is what came of reading a database.
type restored struct {
	seq      sequence // the highest on disk
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
			return restored{}, damaged("its clock: %v", err)
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
	err = r.db.View(func(txn *badger.Txn) error {
		blocks = max(last(txn, checkpointKey), last(txn, deltaKey)) + 1
		item, err := txn.Get([]byte{clockKey})
		if errors.Is(err, badger.ErrKeyNotFound) {
			if blocks > 0 {
				return damaged("it has blocks but no clock")
			}
			return nil
		}
		if err != nil {
			return err
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		if len(value) < 8 {
			return damaged("its clock is cut short")
		}
		r.out.seq, clock = sequence(binary.BigEndian.Uint64(value)), value[8:]
		return nil
	})
	return clock, blocks, err
}

// work takes one block after the other until there are no more.
func (r *restore) work(ctx context.Context) {
	txn := r.db.NewTransaction(false)
	defer txn.Discard()
	from := reader{txn: txn}
	for ctx.Err() == nil {
		block := int(r.next.Add(1) - 1)
		if block >= len(r.out.blocks) {
			return
		}
		c := readBlock(&from, block)
		if c.err == nil && c.found {
			c.err = restoreBlock(r.table, block, c)
		}
		r.out.blocks[block] = c.progress()
		r.enter(block, c)
		from.reset()
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

	checkpoint, namesHeader header
	first, last, newest     sequence // first and last delta to replay; the highest sequence of all
	cut                     bool
	err                     error
}

// progress is where the flush goes on from.
func (c *content) progress() progress {
	p := progress{
		last: max(c.last, c.checkpoint.seq), since: c.first,
		checkpoint: c.checkpoint.seq, names: c.checkpoint.link,
		stateGeneration: c.checkpoint.generation, namesGeneration: c.namesHeader.generation,
		dirty: len(c.deltas) > 0, broken: c.cut || c.err != nil,
	}
	if c.err != nil {
		p.names = 0
	}
	return p
}

func readBlock(r *reader, block int) (c content) {
	var found bool
	if c.checkpoint, c.state, found, c.err = r.head(blockKey(nil, checkpointKey, block)); found {
		c.found = true
		c.newest = c.checkpoint.seq
		var namesErr error
		c.namesHeader, c.names, found, namesErr = r.head(blockKey(nil, namesKey, block))
		if c.err = errors.Join(c.err, namesErr); c.err == nil && (!found || c.namesHeader.seq != c.checkpoint.link) {
			c.err = errors.New("its checkpoint and its names are of different flushes")
		}
	}
	c.readDeltas(r, block)
	if c.err == nil && c.cut && !c.found {
		c.err = errors.New("it has no checkpoint, and its first delta is missing")
	}
	return c
}

// A delta is one as it was read; err says what is wrong with it alone.
type delta struct {
	header
	value []byte
	err   error
}

func (c *content) readDeltas(r *reader, block int) {
	prefix := blockKey(nil, deltaKey, block)
	it := r.txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	var deltas []delta
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		h, value, err := r.blob(it.Item(), c.checkpoint.seq)
		c.newest = max(c.newest, h.seq)
		if errors.Is(err, errHeader) {
			c.cut = true // if it was not an old one, the chain ends before it
			continue
		}
		if h.seq > c.checkpoint.seq {
			deltas = append(deltas, delta{h, value, err})
		}
	}
	slices.SortFunc(deltas, func(a, b delta) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	c.chain(deltas)
}

// chain takes the deltas that follow one another (S1). One whose predecessor is neither the one before it nor
// in the checkpoint speaks of a state that is not there.
func (c *content) chain(deltas []delta) {
	c.last = c.checkpoint.seq
	for _, d := range deltas {
		if d.err != nil || d.link > c.checkpoint.seq && d.link != c.last {
			c.cut = true
			return
		}
		if len(c.deltas) == 0 {
			c.first = d.seq
		}
		c.deltas, c.last, c.found = append(c.deltas, d.value), d.seq, true
	}
}
