package store

import "time"

// A Publisher receives the deltas that flushes take from the table, beside the database. It gets
// them also while the disk is full, failing or slow. Its methods are called by the flush goroutine,
// one at a time, and must not block for long.
type Publisher interface {
	// PublishDelta receives a delta of a block that isn't empty. The deltas of a block come in the
	// order in which they were taken, each once. delta is valid during the call only. It isn't on
	// disk yet, so it is kept until PublishWritten or PublishFlush.
	PublishDelta(block int, delta []byte)
	// PublishWritten sends the oldest n deltas that are kept: they survive the death of the process.
	PublishWritten(n int)
	// PublishFlush sends all deltas that are kept and ends a flush, also one without changes: all that
	// was applied before the flush began is in a delta, or was published before. written: all of it
	// survives the death of the process.
	PublishFlush(written bool)
}

// FlushSoon makes the next flush begin now, or at once after the one under way. It returns without
// waiting.
func (s *Store) FlushSoon() {
	s.soon.Store(true)
	wake(s.wakeFlush)
}

// publishOnly is a flush for the Publisher alone, because the disk can't be written.
func (s *Store) publishOnly(began time.Time) {
	s.number(began)
	s.flusher.publishOnly()
}

// A blockPublisher publishes deltas that the database doesn't get. The flusher owns it.
type blockPublisher struct {
	to       Publisher
	interval time.Duration // between two flushes for the Publisher alone
	pacer    pacer
	delta    []byte // scratch; the flusher's own may be in use
	put      int    // deltas in the transaction under way
	// ahead is set if deltas were published since the flush began that the database doesn't get.
	ahead bool
}

func newBlockPublisher(to Publisher, interval time.Duration, p pacer) *blockPublisher {
	return &blockPublisher{to: to, interval: interval, pacer: p}
}

// publishOnly takes the delta of every block for the Publisher. Such a block needs a checkpoint,
// also where a checkpoint with an older state is on its way to the disk.
func (f *flusher) publishOnly() {
	p := f.publisher
	p.ahead = true
	p.pacer.begin()
	for block := range f.table.Blocks() {
		f.grow(block + 1)
		p.delta = f.table.AppendPublished(p.delta[:0], block)
		if len(p.delta) > 0 {
			saved := &f.blocks[block]
			saved.needsCheckpoint = true
			saved.unwritten++
			p.to.PublishDelta(block, p.delta)
		}
		if cap(p.delta) > keptBuffer {
			p.delta = nil
		}
		p.pacer.step()
	}
	p.flushed()
}

// written publishes the deltas of a transaction that is written.
func (p *blockPublisher) written() {
	p.to.PublishWritten(p.put)
	p.put = 0
}

func (p *blockPublisher) flushed() {
	p.put = 0
	p.to.PublishFlush(!p.ahead)
}

// await returns what work returns. Work may wait for the disk, and doesn't use the table; meanwhile
// the deltas go to the Publisher alone. The flush goroutine still does one thing at a time: either
// work has its fields, or publishOnly has, which touches none that work uses.
func (f *flusher) await(work func() error) error {
	if f.publisher == nil {
		return work()
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	late := time.NewTimer(f.publisher.interval)
	defer late.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-late.C:
			f.publishOnly()
			late.Reset(f.publisher.interval)
		}
	}
}
