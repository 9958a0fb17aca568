package replica

import "time"

// This file reads downward: the flush of a heartbeat; its number of blocks; whole blocks; deltas.

// applyLocked applies a flush: first the clock, so no value is ever later than the clock.
func (f *follower) applyLocked(m *beatBody, now time.Time) {
	correction, changed := f.offset.correct()
	if changed {
		f.r.log.Warn("the clocks of two replicas differ; dates of the other one's samples are corrected",
			"origin", f.key.name, "correction", correction.Round(time.Millisecond))
	}
	if err := f.shadow.Advance(m.clock, correction); err != nil {
		f.replaceLocked(err, m, now)
		return
	}
	f.advanced, f.ran = now, false
	f.beat = *m
	f.beat.clock = nil
	f.setBlocksLocked(m.blocks)
	deltas, wholes := f.pending.take(m.flush)
	for i := range wholes {
		f.applyWholeLocked(&wholes[i])
	}
	for i := range deltas {
		f.applyDeltaLocked(&deltas[i])
	}
}

// replaceLocked begins another shadow, because the origin came back with a state that the present
// one cannot continue, such as that of other windows. The present one stays visible until the other
// is complete.
func (f *follower) replaceLocked(err error, m *beatBody, now time.Time) {
	f.r.log.Info("the state of an origin is read anew", "origin", f.key.name, "reason", err)
	if f.r.origins.shows(f) != f.shadow {
		f.shadow.End()
	}
	f.shadow, f.blocks = nil, nil
	f.restartLocked(f.incarnation, now)
	f.beats = m.number
	f.beginLocked(m, now)
}

// setBlocksLocked follows the number of blocks. A restarted origin may have fewer.
func (f *follower) setBlocksLocked(count int) {
	for len(f.blocks) < count {
		f.blocks = append(f.blocks, followedBlock{lacks: true})
		f.lacking++
	}
	for i := count; i < len(f.blocks); i++ {
		if f.blocks[i].lacks {
			f.lacking--
		}
		f.digest -= f.blocks[i].digest(i)
		_ = f.shadow.ReplaceBlock(i, nil, nil)
	}
	f.blocks = f.blocks[:count]
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
	b.arrived = false
	if !b.lacks || b.has && m.seq <= b.seq {
		return // an answer to an earlier question: its state may be older than the present one
	}
	if err := f.shadow.ReplaceBlock(m.block, m.names, m.state); err != nil {
		f.damagedLocked(m.block, err)
		return
	}
	f.resyncs.Add(1)
	f.hasLocked(m.block, m.seq)
}

func (f *follower) applyDeltaLocked(m *deltaBody) {
	if m.block >= len(f.blocks) {
		return
	}
	b := &f.blocks[m.block]
	begins := !b.has && m.first
	switch {
	case !b.has && !begins, b.has && m.seq <= b.seq:
		return
	case b.has && m.seq != b.seq+1:
		if !b.lacks {
			f.gaps.Add(1)
			f.lackLocked(m.block)
		}
		return
	}
	if begins && f.shadow.ReplaceBlock(m.block, nil, nil) != nil {
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
	*b = followedBlock{has: true, seq: seq}
	f.digest += b.digest(block)
}

// lackLocked notes that a block must be asked for.
func (f *follower) lackLocked(block int) {
	if b := &f.blocks[block]; !b.lacks {
		b.lacks, b.arrived, b.asked, b.tries = true, false, time.Time{}, 0
		f.lacking++
	}
}

// damagedLocked notes that a block could not be read. It is asked for again after a while.
func (f *follower) damagedLocked(block int, err error) {
	b := &f.blocks[block]
	f.r.reject(reasonDamaged, f.key.name, err.Error())
	f.lackLocked(block)
	f.digest -= b.digest(block)
	b.has, b.seq, b.asked, b.tries = false, 0, f.r.now(), damagedTries
}
