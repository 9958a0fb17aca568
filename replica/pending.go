package replica

import (
	"cmp"
	"slices"
)

// pending are changes that wait for the heartbeat of their flush.
type pending struct {
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

// addDelta retains a delta. It reports false if there is no room.
func (p *pending) addDelta(m *deltaBody) bool {
	if p.bytes+len(m.delta) > maxPending {
		return false
	}
	p.bytes += len(m.delta)
	p.deltas = append(p.deltas, *m)
	return true
}

func (p *pending) addWhole(m *wholeBody) bool {
	if p.bytes+len(m.names)+len(m.state) > maxPending {
		return false
	}
	p.bytes += len(m.names) + len(m.state)
	p.wholes = append(p.wholes, *m)
	return true
}

// take removes and returns the changes that the heartbeat of a flush covers: deltas of it and of
// earlier ones, by block and number, and whole blocks that were read before its end.
func (p *pending) take(flush uint64) (deltas []deltaBody, wholes []wholeBody) {
	p.deltas = slices.DeleteFunc(p.deltas, func(m deltaBody) bool {
		if m.flush > flush {
			return false
		}
		p.bytes -= len(m.delta)
		deltas = append(deltas, m)
		return true
	})
	p.wholes = slices.DeleteFunc(p.wholes, func(m wholeBody) bool {
		if m.flush >= flush {
			return false
		}
		p.bytes -= len(m.names) + len(m.state)
		wholes = append(wholes, m)
		return true
	})
	slices.SortFunc(deltas, func(a, b deltaBody) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.seq, b.seq))
	})
	return deltas, wholes
}

// newest is the highest number of a block among the deltas that wait; 0: none does.
func (p *pending) newest(block int) (seq uint64) {
	for i := range p.deltas {
		if p.deltas[i].block == block {
			seq = max(seq, p.deltas[i].seq)
		}
	}
	return seq
}
