package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// beatEvery is the time between two heartbeats. Each flush ends with one, so others are sent only
// while flushes take longer.
const beatEvery = 500 * time.Millisecond

// publisher publishes the flushes of the own table. The flush goroutine calls delta, send, mark and flush.
type publisher struct {
	r       *Replica
	letters atomic.Uint64 // the number of the last letter

	// The flush goroutine owns these.
	body   []byte // of the deltas that are kept
	kept   []keptDelta
	large  int    // bytes of large deltas of the flush in progress
	buffer []byte // scratch space

	mu       sync.Mutex // guards all below
	began    bool
	restored int      // blocks before the first delta
	seqs     []uint64 // the newest number of each block
	digest   uint64   // of seqs
	beat     beatBody // the newest
	partial  uint64   // the newest flush that was not written
	beatAt   time.Time
	scratch  []byte
	flushed  chan struct{} // closed at the end of the flush in progress
}

// PublishDelta implements store.Publisher.
func (r *Replica) PublishDelta(block int, delta []byte) { r.publisher.delta(block, delta) }

// PublishWritten implements store.Publisher.
func (r *Replica) PublishWritten(n int) { r.publisher.send(n) }

// PublishFlush implements store.Publisher.
func (r *Replica) PublishFlush(written bool) {
	r.publisher.send(len(r.publisher.kept))
	r.publisher.mark(written)
	r.publisher.flush()
}

// keptDelta is a delta that is not on disk yet. A replica that had it would fall back once this process was
// killed and came back. One that is too large to be sent is kept without its changes.
type keptDelta struct {
	block, end int
	kind       messageType
}

// maxLarge bounds the deltas of a flush that have more than a piece. So a few blocks of large bodies
// leave the bus and the followers to the deltas of others. The followers hear of those beyond it, and ask
// for their blocks.
const maxLarge = maxPending / 2

// delta numbers a delta and keeps it. A whole block that is read meanwhile has its number.
func (p *publisher) delta(block int, delta []byte) {
	m := deltaBody{block: block, delta: delta}
	p.mu.Lock()
	p.beginLocked()
	p.growLocked(block + 1)
	p.digest -= digestOf(block, p.seqs[block])
	p.seqs[block]++
	p.digest += digestOf(block, p.seqs[block])
	m.seq, m.flush = p.seqs[block], p.beat.flush+1
	m.first = m.seq == 1 && block >= p.restored
	p.mu.Unlock()
	kind := typeDelta
	if !p.admits(len(delta)) {
		m.delta, kind = nil, typeUnsent
		p.r.reject(reasonSize, p.r.me.name, "a flush changes too much; other replicas will ask for whole blocks")
	}
	p.body = m.append(p.body)
	p.kept = append(p.kept, keptDelta{block, len(p.body), kind})
}

func (p *publisher) admits(bytes int) bool {
	if bytes <= maxPiece {
		return true
	}
	if p.large+bytes > maxLarge {
		return false
	}
	p.large += bytes
	return true
}

// send sends the oldest n deltas that are kept.
func (p *publisher) send(n int) {
	n = min(n, len(p.kept))
	sent := 0
	for _, k := range p.kept[:n] {
		p.buffer = p.r.send(p.r.subjects.ofBlock(p.r.me.name, k.block), k.kind, p.body[sent:k.end], p.buffer)
		sent = k.end
	}
	p.body = append(p.body[:0], p.body[sent:]...)
	p.kept = append(p.kept[:0], p.kept[n:]...)
	for i := range p.kept {
		p.kept[i].end -= sent
	}
	p.trim()
}

// beginLocked enters the blocks that were restored.
func (p *publisher) beginLocked() {
	if !p.began {
		p.began, p.restored = true, p.r.parts.Table.Blocks()
		p.growLocked(p.restored)
	}
}

func (p *publisher) growLocked(blocks int) {
	for len(p.seqs) < blocks {
		p.digest += digestOf(len(p.seqs), 0)
		p.seqs = append(p.seqs, 0)
	}
}

// keptBuffer is how large a scratch buffer may stay between two messages.
const keptBuffer = 1 << 20

func (p *publisher) trim() {
	if len(p.body) == 0 && cap(p.body) > keptBuffer {
		p.body = nil
	}
	if cap(p.buffer) > keptBuffer {
		p.buffer = nil
	}
}

// mark notes whether the next flush, and heartbeats until the one after it, are of what is on disk.
func (p *publisher) mark(written bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat.unwritten = !written
}

func (p *publisher) flush() {
	p.large = 0
	changed := p.r.publishDocuments()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginLocked()
	if p.beat.flush++; p.beat.unwritten {
		p.partial = p.beat.flush
	}
	p.beat.blocks, p.beat.digest = len(p.seqs), p.digest
	p.beat.documents += changed
	p.beat.clock = p.r.parts.Table.AppendClock(p.beat.clock[:0])
	p.sendBeatLocked()
	close(p.flushed)
	p.flushed = make(chan struct{})
}

// sendBeatLocked sends a heartbeat with the state after the newest flush.
func (p *publisher) sendBeatLocked() {
	p.beat.number++
	p.beat.sent = p.r.wall().UnixNano()
	p.beatAt = p.r.now()
	p.scratch = p.r.send(p.r.subjects.of(flowOf, p.r.me.name, topicBeat), typeBeat, p.beat.append(nil), p.scratch)
}

// step repeats the heartbeat if the flush in progress takes long.
func (p *publisher) step(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beat.flush > 0 && now.Sub(p.beatAt) >= beatEvery {
		p.sendBeatLocked()
	}
}

// leave sends the last heartbeat.
func (p *publisher) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat.leaving = true
	if p.beat.flush > 0 {
		p.sendBeatLocked()
	}
}

// flushes returns the number of the newest flush, and a channel that the next one closes.
func (p *publisher) flushes() (uint64, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beat.flush, p.flushed
}

// afterNow is the number of the first flush that surely has what the table has now: one that is in progress may
// have passed a block.
func (p *publisher) afterNow() uint64 {
	newest, _ := p.flushes()
	return p.after(newest)
}

// after is the number of the first flush that has what the table had after another one, as far as is known. While the disk
// is slow there are two in progress: one that waits for it, and within that others that are not written.
func (p *publisher) after(flush uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.partial > flush {
		return flush + 3
	}
	return flush + 2
}

// numberOf returns the newest number of a block and of the flushes. A state that is read
// afterwards includes both.
func (p *publisher) numberOf(block int) (seq, flush uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if block >= len(p.seqs) {
		return 0, 0, false
	}
	return p.seqs[block], p.beat.flush, true
}

func (p *publisher) numbers() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seqs)
}

// changeOf returns the number of the newest documents message.
func (p *publisher) changeOf() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beat.documents
}
