package replica

import (
	"cmp"
	"slices"
)

// pending are changes that wait for the heartbeat of their flush.
type pending struct {
	budget *budget
	deltas []deltaBody
	wholes []wholeBody
	bytes  int
}

const (
	// maxPending bounds the bytes of pending. Above it deltas are dropped, which makes gaps.
	maxPending = maxBody
	// askBelow bounds pending for asking for further whole blocks.
	askBelow = maxPending / 2
)

func (p *pending) take(n int) bool {
	if p.bytes+n > maxPending || !p.budget.take(n) {
		return false
	}
	p.bytes += n
	return true
}

func (p *pending) give(n int) {
	p.bytes -= n
	p.budget.give(n)
}

// addDelta retains a delta. It reports false if there is no room.
func (p *pending) addDelta(m *deltaBody) bool {
	if !p.take(len(m.delta)) {
		return false
	}
	p.deltas = append(p.deltas, *m)
	return true
}

// addWhole retains a whole block in place of an earlier one. It reports false if there is no room.
func (p *pending) addWhole(m *wholeBody) bool {
	p.wholes = slices.DeleteFunc(p.wholes, func(before wholeBody) bool {
		if before.block != m.block {
			return false
		}
		p.give(before.bytes())
		return true
	})
	if !p.take(m.bytes()) {
		return false
	}
	p.wholes = append(p.wholes, *m)
	return true
}

// sort sorts the deltas by block and number.
func (p *pending) sort() {
	slices.SortFunc(p.deltas, func(a, b deltaBody) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.seq, b.seq))
	})
}

// takeDeltas removes and returns the deltas of a flush and of earlier ones.
func (p *pending) takeDeltas(flush uint64) (taken []deltaBody) {
	p.deltas = slices.DeleteFunc(p.deltas, func(m deltaBody) bool {
		if m.flush > flush {
			return false
		}
		p.give(len(m.delta))
		taken = append(taken, m)
		return true
	})
	return taken
}

// takeWholes removes and returns the whole blocks that were read before a flush had ended.
func (p *pending) takeWholes(before uint64) (taken []wholeBody) {
	p.wholes = slices.DeleteFunc(p.wholes, func(m wholeBody) bool {
		if m.flush >= before {
			return false
		}
		p.give(m.bytes())
		taken = append(taken, m)
		return true
	})
	return taken
}

// newest is the highest number of a block among the changes that wait; 0: none does.
func (p *pending) newest(block int) (seq uint64) {
	for i := range p.deltas {
		if p.deltas[i].block == block {
			seq = max(seq, p.deltas[i].seq)
		}
	}
	for i := range p.wholes {
		if p.wholes[i].block == block {
			seq = max(seq, p.wholes[i].seq)
		}
	}
	return seq
}
