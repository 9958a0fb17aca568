package replica

import (
	"math"
	"time"
)

// This file reads downward: when a flush is applied; whether all of it is there; how it is applied;
// whole blocks; deltas.

// patience is the time for which an incomplete flush waits for what is missing. Meanwhile the
// shadow stands still: then a rate that is constant reads constant, while a flush of which a part
// is missing would read low. After that, flushes are applied as they are.
const patience = 30 * time.Second

// tryLocked applies the flush of the newest heartbeat, if all of it is there.
func (f *follower) tryLocked(now time.Time) {
	m := &f.newest
	if f.shadow == nil || m.flush <= f.beat.flush && len(f.pending.wholes) == 0 {
		return
	}
	f.growLocked(m.blocks)
	f.pending.sort()
	switch {
	case f.planLocked(m) == m.digest:
		f.partial, f.incomplete = false, time.Time{}
		f.applyLocked(m, math.MaxUint64, now)
	case f.partial, f.pending.bytes > askBelow:
		f.partial = true
		f.applyLocked(m, m.flush, now)
	case f.incomplete.IsZero():
		f.incomplete = now
	case now.Sub(f.incomplete) >= patience:
		f.partial = true
		f.applyLocked(m, m.flush, now)
	}
}

// planLocked returns the digest that all blocks would have with the pending changes up to a flush.
// It notes the blocks that lack a delta.
func (f *follower) planLocked(m *beatBody) uint64 {
	digest := f.digest
	plan := make(map[int]followedBlock)
	enter := func(block int, seq uint64) {
		b, planned := plan[block]
		if !planned {
			b = f.blocks[block]
		}
		digest -= b.digest(block)
		b.has, b.seq = true, seq
		digest += b.digest(block)
		plan[block] = b
	}
	for i := range f.pending.wholes {
		if w := &f.pending.wholes[i]; w.block < len(f.blocks) && f.blocks[w.block].takesWhole(w) {
			enter(w.block, w.seq)
		}
	}
	for i := range f.pending.deltas {
		d := &f.pending.deltas[i]
		if d.block >= len(f.blocks) || d.flush > m.flush {
			continue
		}
		b, planned := plan[d.block]
		if !planned {
			b = f.blocks[d.block]
		}
		switch b.takesDelta(d) {
		case follows:
			enter(d.block, d.seq)
		case gap:
			f.lackLocked(d.block)
			f.partial = f.partial || d.unsent // nothing is lost that the others would wait for
		}
	}
	return digest
}

// takesWhole reports whether a whole block is news. An answer to an earlier question may be older than the
// present state. A block that no longer lacks a delta may still be older: another replica has relayed it.
func (b *followedBlock) takesWhole(m *wholeBody) bool { return !b.has || b.seq < m.seq }

// succession is how a delta relates to a block.
type succession byte

const (
	known   succession = iota // or of a block that is asked for
	follows                   // the delta after the newest one
	gap                       // a delta before it is missing, or it was not sent
)

func (b *followedBlock) takesDelta(m *deltaBody) succession {
	next := !b.has && m.first || b.has && m.seq == b.seq+1
	switch {
	case next && !m.unsent:
		return follows
	case next, b.has && m.seq > b.seq+1:
		return gap
	}
	return known
}

// addDeltaLocked keeps a delta for the heartbeat of its flush, or applies it if that is applied.
func (f *follower) addDeltaLocked(m *deltaBody, now time.Time) {
	switch {
	case m.flush <= f.beat.flush:
		f.applyDeltaLocked(m)
	case !f.pending.addDelta(m):
		f.r.reject(reasonFlood, f.key.name, "a flush is too large; whole blocks will be asked for")
		return
	case m.flush <= f.newest.flush: // it is late, and may be all that was missing
		f.tryLocked(now)
	default:
		return
	}
	f.compareLocked(now)
	f.askLocked(now)
}

// applyLocked applies a flush, and whole blocks that were read before a later one ended. The clock
// is first, so no value is ever later than the clock.
func (f *follower) applyLocked(m *beatBody, wholesBefore uint64, now time.Time) {
	correction, changed := f.offset.correct()
	if changed {
		f.r.log.Warn("the clocks of two replicas differ; dates of the other one's samples are corrected",
			"origin", f.key.name, "correction", correction.Round(time.Millisecond))
	}
	wholes := f.pending.takeWholes(wholesBefore)
	if err := f.advanceLocked(m, wholes, correction); err != nil {
		f.replaceLocked(err, *m, now)
		return
	}
	f.advanced, f.ran = now, false
	f.beat = *m
	f.unwritten.Store(m.unwritten)
	f.cutLocked(m.blocks)
	for i := range wholes {
		f.applyWholeLocked(&wholes[i])
	}
	deltas := f.pending.takeDeltas(m.flush)
	for i := range deltas {
		f.applyDeltaLocked(&deltas[i])
	}
}

// advanceLocked advances the clock to that of the flush, and to those of whole blocks that were
// read after it.
func (f *follower) advanceLocked(m *beatBody, wholes []wholeBody, correction time.Duration) error {
	if err := f.shadow.Advance(m.clock, correction); err != nil {
		return err
	}
	for i := range wholes {
		if wholes[i].flush < m.flush {
			continue
		}
		if err := f.shadow.Advance(wholes[i].clock, correction); err != nil {
			return err
		}
	}
	return nil
}

// replaceLocked begins another shadow, because the origin came back with a state that the present
// one cannot continue, such as that of other windows. The present one stays visible until the other
// is complete.
func (f *follower) replaceLocked(err error, newest beatBody, now time.Time) {
	f.r.log.Info("the state of an origin is read anew", "origin", f.key.name, "reason", err)
	f.dropShadowLocked()
	f.restartLocked(f.incarnation, now)
	f.beats = newest.number
	f.beginLocked(&newest, now)
}

// growLocked follows the number of blocks.
func (f *follower) growLocked(count int) {
	for len(f.blocks) < count {
		f.blocks = append(f.blocks, followedBlock{lacks: true})
		f.lacking++
	}
	f.size.Store(int64(len(f.blocks)))
}

// cutLocked removes the blocks that a restarted origin has no longer.
func (f *follower) cutLocked(count int) {
	for i := count; i < len(f.blocks); i++ {
		if f.blocks[i].lacks {
			f.lacking--
		}
		f.digest -= f.blocks[i].digest(i)
		_ = f.shadow.ReplaceBlock(i, nil, nil)
	}
	f.blocks = f.blocks[:count]
	f.size.Store(int64(count))
}

// digest is the block's part of the digest.
func (b *followedBlock) digest(block int) uint64 {
	if !b.has {
		return 0
	}
	return digestOf(block, b.seq)
}

func (f *follower) applyWholeLocked(m *wholeBody) {
	if m.block >= len(f.blocks) {
		return
	}
	b := &f.blocks[m.block]
	if b.arrived {
		b.arrived = false
		f.arrived--
	}
	if !b.takesWhole(m) {
		return
	}
	if err := f.shadow.ReplaceBlock(m.block, m.names, m.state); err != nil {
		f.damagedLocked(m.block, err)
		return
	}
	f.resyncs.Add(1)
	f.hasLocked(m.block, m.seq)
	b.letter = m.letter
}

func (f *follower) applyDeltaLocked(m *deltaBody) {
	if m.block >= len(f.blocks) {
		return
	}
	b := &f.blocks[m.block]
	switch b.takesDelta(m) {
	case gap:
		f.lackLocked(m.block)
		return
	case known:
		return
	}
	if !b.has && f.shadow.ReplaceBlock(m.block, nil, nil) != nil {
		return
	}
	if err := f.shadow.ApplyDelta(m.block, m.delta); err != nil {
		f.damagedLocked(m.block, err)
		return
	}
	f.hasLocked(m.block, m.seq)
}

// hasLocked notes that a block is as of a delta.
func (f *follower) hasLocked(block int, seq uint64) {
	b := &f.blocks[block]
	f.digest -= b.digest(block)
	if b.lacks {
		f.lacking--
	}
	if b.arrived {
		f.arrived--
	}
	*b = followedBlock{has: true, seq: seq}
	f.digest += b.digest(block)
}

// lackLocked notes that a delta of a block is missing, so the block must be asked for; again, if the
// delta is missing after the block that has arrived.
func (f *follower) lackLocked(block int) {
	b := &f.blocks[block]
	if b.lacks && !b.arrived {
		return
	}
	if b.arrived {
		f.arrived--
	} else {
		f.lacking++
	}
	b.lacks, b.arrived, b.asked, b.tries = true, false, time.Time{}, 0
	f.gaps.Add(1)
}

// damagedLocked notes that a block could not be read. It is asked for again after a while.
func (f *follower) damagedLocked(block int, err error) {
	b := &f.blocks[block]
	f.r.reject(reasonDamaged, f.key.name, err.Error())
	f.lackLocked(block)
	f.digest -= b.digest(block)
	b.has, b.seq, b.letter, b.former = false, 0, 0, version{}
	b.asked, b.tries = f.r.now(), damagedTries
	f.partial = true // the others don't wait for it
}
