package store

import (
	"time"

	"github.com/sluice-metrics/sluice/store/format"
)

const (
	// checkpointPeriods is how many flush intervals pass until a changing block is written whole again: fewer than
	// format.DeltaSlots, so a delta is overwritten only when a newer checkpoint has been due.
	checkpointPeriods = 120
	// keptBuffer is how large a scratch buffer may stay between two flushes.
	keptBuffer = 4 << 20
)

// A progress is what the store knows of a block's copy on the disk. Its owner is the flush.
type progress struct {
	last       format.Sequence // the newest delta that was taken from the table, written or not
	since      format.Sequence // the first delta after the checkpoint, if dirty
	checkpoint format.Sequence // 0: none yet
	names      format.Sequence // 0: none, or they must be written again

	stateGeneration uint8
	namesGeneration uint8

	dirty  bool // there are deltas after the checkpoint
	broken bool // something taken from the table did not reach the disk: only a checkpoint helps
}

// A checkpoint is what a block gains when one is on disk.
type checkpoint struct {
	seq             format.Sequence
	names           bool
	stateGeneration uint8
	namesGeneration uint8
}

// due says whether a block must be written whole. Every block has a period of its own among
// checkpointPeriods, so that the load is even however many blocks began to change at once.
func (p *progress) due(block int, seq format.Sequence) bool {
	if p.broken {
		return true
	}
	if !p.dirty {
		return false
	}
	turn := seq.OpensPeriod() && seq.Period()%checkpointPeriods == uint64(block)%checkpointPeriods
	return turn || seq.Period()-p.since.Period() >= checkpointPeriods
}

// A flush is one pass over the table's blocks.
type flush struct {
	table  Table
	blocks []progress
	owed   owed
	batch  batch

	delta, state, names []byte
	pace                pace
}

func (f *flush) init(table Table, documents Documents, spread time.Duration, urgent func() bool) {
	f.table = table
	f.pace.spread, f.pace.urgent = spread, urgent
	f.owed.init(documents)
	f.batch.clock = table.AppendClock
	f.batch.onDisk = f.onDisk
	f.batch.lost = f.lost
}

// run writes what changed since the last run, and the checkpoints that are due. After an error, what was
// not reached is still with the table, and what was taken from it is marked broken.
func (f *flush) run(db database, seq format.Sequence) error {
	f.batch.db, f.batch.seq = db, seq
	f.grow(f.table.Blocks())
	f.pace.begin()
	for block := range f.table.Blocks() {
		f.grow(block + 1)
		if err := f.block(block, seq); err != nil {
			f.blocks[block].broken = true
			f.batch.drop()
			return err
		}
		f.pace.step()
	}
	f.trim()
	f.owed.collect()
	if err := f.owed.put(&f.batch, &f.pace); err != nil {
		f.batch.drop()
		return err
	}
	if err := f.batch.reserve(0); err != nil {
		return err
	}
	if err := f.batch.commit(); err != nil {
		return err
	}
	f.owed.settled()
	return nil
}

func (f *flush) block(block int, seq format.Sequence) error {
	p := &f.blocks[block]
	f.delta = f.table.AppendDelta(f.delta[:0], block)
	if len(f.delta) > 0 {
		if err := f.putDelta(block, seq); err != nil {
			return err
		}
	}
	if p.due(block, seq) {
		return f.putCheckpoint(block, seq)
	}
	return nil
}

func (f *flush) putDelta(block int, seq format.Sequence) error {
	p := &f.blocks[block]
	link := p.last
	p.last = seq
	if !p.dirty {
		p.dirty, p.since = true, seq
	}
	if p.broken || seq.Period()-p.since.Period() >= format.DeltaSlots {
		p.broken = true // the checkpoint that follows at once says it all
		return nil
	}
	delta := format.Blob{Key: format.AppendDeltaKey(nil, block, seq), Value: f.delta, Header: format.Header{Seq: seq, Link: link}}
	if err := f.batch.put(delta); err != nil {
		return err
	}
	f.batch.outcomes = append(f.batch.outcomes, outcome{block: block})
	return nil
}

// putCheckpoint writes a block whole. The names are asked for after the state, so that every series of the
// state has its name.
func (f *flush) putCheckpoint(block int, seq format.Sequence) error {
	p := &f.blocks[block]
	f.state = f.table.AppendState(f.state[:0], block)
	done := &checkpoint{seq: seq, stateGeneration: p.stateGeneration ^ 1, namesGeneration: p.namesGeneration}
	done.names = f.table.NamesChanged(block) || p.names == 0
	link := p.names
	var heads []format.Blob
	if done.names {
		f.names = f.table.AppendNames(f.names[:0], block)
		p.names = 0 // until they are on disk
		done.namesGeneration ^= 1
		link = seq
		head, err := f.batch.putParts(format.Blob{Key: format.AppendBlockKey(nil, format.PrefixNames, block), Value: f.names,
			Header: format.Header{Seq: seq, Generation: done.namesGeneration}})
		if err != nil {
			return err
		}
		heads = append(heads, head)
	}
	head, err := f.batch.putParts(format.Blob{Key: format.AppendBlockKey(nil, format.PrefixCheckpoint, block), Value: f.state,
		Header: format.Header{Seq: seq, Link: link, Generation: done.stateGeneration}})
	if err != nil {
		return err
	}
	if err := f.batch.putHeads(append(heads, head)...); err != nil {
		return err
	}
	f.batch.outcomes = append(f.batch.outcomes, outcome{block, done})
	return nil
}

// onDisk enters what a batch achieved.
func (f *flush) onDisk(outcomes []outcome) {
	for _, o := range outcomes {
		c, p := o.checkpoint, &f.blocks[o.block]
		if c == nil {
			continue
		}
		p.checkpoint, p.stateGeneration, p.namesGeneration = c.seq, c.stateGeneration, c.namesGeneration
		p.dirty, p.broken = false, false
		if c.names {
			p.names = c.seq
		}
	}
}

// lost enters that a batch did not reach the disk.
func (f *flush) lost(outcomes []outcome) {
	for _, o := range outcomes {
		f.blocks[o.block].broken = true
	}
}

// forget makes every block be written whole: the database is a new one.
func (f *flush) forget() {
	f.owed.forget()
	for i := range f.blocks {
		f.blocks[i] = progress{last: f.blocks[i].last, broken: true}
	}
}

func (f *flush) grow(blocks int) {
	for len(f.blocks) < blocks {
		f.blocks = append(f.blocks, progress{})
	}
}

func (f *flush) trim() {
	for _, b := range []*[]byte{&f.delta, &f.state, &f.names} {
		if cap(*b) > keptBuffer {
			*b = nil
		}
	}
}
