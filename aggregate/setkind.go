package aggregate

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// setKind is the behaviour of sets. All of a set is in the body (set.go); the cell holds the tick of the newest member.
type setKind struct{}

func (setKind) coding() window.Coding { return window.WholeCoding }

func (setKind) check(*metric.Sample) metric.Reason { return metric.Applied }

func (setKind) checkPreAggregated(*metric.Sample) metric.Reason { return metric.Malformed }

func (k setKind) create(e *env, h handle) {
	h.makeBody(func() *body { return &body{set: newSet(e.spans)} })
	k.weigh(e, h)
}

// memberHash is the hash of a sample's member.
func (a *applier) memberHash(s *metric.Sample) uint64 {
	a.digest.ResetWithSeed(a.setSeed)
	a.digest.Write(s.Member)
	return a.digest.Sum64()
}

func (setKind) apply(a *applier, h handle, s *metric.Sample) metric.Reason {
	body := h.body()
	if !body.set.insert(a.memberHash(s), a.now.Tick, budget{a.env, body}) {
		return metric.OverLimit
	}
	return metric.Applied
}

func (setKind) applyDatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason {
	body, hash := h.body(), a.memberHash(s)
	body.rewritten = true
	if body.set.many.Load() == nil {
		if !body.set.insert(hash, tick, budget{a.env, body}) {
			return metric.OverLimit
		}
	} else {
		for i := range a.spans {
			if sp := &a.spans[i]; sp.Keeps(tick, a.now.Tick) {
				body.set.slotLocked(i, sp, sp.Unit(tick)).registers.insert(hash)
			}
		}
	}
	h.cell.history.Stamp = max(h.cell.history.Stamp, tick)
	return metric.Applied
}

func (setKind) applyPreAggregatedLocked(*applier, handle, uint32, *metric.Sample) metric.Reason {
	return metric.Malformed
}

func (k setKind) recordLocked(e *env, h handle, tick uint32) {
	set := h.body().set
	set.rollLocked(e.spans, tick)
	set.mergeLocked(&e.epochs, e.oldestTick(tick))
	set.renewLocked(e.oldestTick(tick))
	h.cell.history.Stamp = tick
	k.weigh(e, h)
}

func (k setKind) shrinkLocked(e *env, h handle, now uint32) {
	set := h.body().set
	if e.idleLocked(h, now) {
		set.forgetLocked()
	}
	set.mergeLocked(&e.epochs, e.oldestTick(now))
	set.renewLocked(e.oldestTick(now))
	k.weigh(e, h)
	h.cell.history.Shrink(e.logs, window.WholeCoding, now)
}

func (setKind) weigh(e *env, h handle) {
	body := h.body()
	e.weigh(body, body.set.bytesLocked())
}

func (setKind) inherit(e *env, from, to handle, at remains) bool {
	body := to.body()
	from.body().set.exact.Load().each(func(hash uint64, tick uint32) {
		if tick >= at.ended {
			body.set.insert(hash, tick, budget{e, body})
		}
	})
	return true
}

func (setKind) timestampLocked(handle) int64 { return 0 }

func (setKind) begin(r *reader) { r.members = newUnion() }

func (setKind) readLocked(r *reader, h handle) { h.body().set.readLocked(r.members, r.view) }

func (setKind) value(r *reader) (v float64, ok bool) {
	if r.stat != metric.Unique {
		r.unread = true
		return 0, false
	}
	return r.members.count(), true
}

func (setKind) saveLocked(e *env, dst []byte, h handle, _, sinceUnits uint32) []byte {
	return h.body().set.appendLocked(dst, e.spans, sinceUnits)
}

func (setKind) restore(r *restoring, d *blob.Decoder, h handle, stamp uint32) {
	h.body().set.restore(d, r)
	h.cell.history.Stamp = r.CurrentTick(stamp)
}

func (setKind) restoreNumber(d *blob.Decoder, _ handle) { d.Fail() }

func (s *set) appendLocked(dst []byte, spans []window.Span, since uint32) []byte {
	var list []byte
	n := uint64(0)
	s.exact.Load().each(func(hash uint64, tick uint32) {
		if tick >= since {
			list = binary.LittleEndian.AppendUint64(list, hash)
			list = binary.AppendUvarint(list, uint64(tick))
			n++
		}
	})
	dst = append(binary.AppendUvarint(dst, n), list...)
	if s.many.Load() == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	for i := range spans {
		first, n := spans[i].Unit(since), 0
		for _, slot := range s.units[i] {
			if slot.unit >= first {
				n++
			}
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for _, slot := range s.units[i] {
			if slot.unit >= first {
				dst = binary.AppendUvarint(dst, uint64(slot.unit))
				list := appendRegisters(nil, slot.registers)
				dst = append(binary.AppendUvarint(dst, uint64(len(list))), list...)
			}
		}
	}
	return dst
}

func (s *set) restore(d *blob.Decoder, r *restoring) {
	n := d.Uint32()
	if uint64(n)*9 > uint64(len(d.Rest)) {
		d.Fail()
		return
	}
	table := s.reserve(int32(n))
	for ; n > 0 && d.Err == nil; n-- {
		hash, tick := d.Uint64(), d.Uint32()
		if d.Err == nil {
			table.see(max(hash, 1), min(r.CurrentTick(tick), r.Today))
		}
	}
	if d.Byte() == 0 {
		return
	}
	s.many.CompareAndSwap(nil, new(liveRegisters))
	for i := range r.Strides {
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			s.restoreSlot(d, r, i)
		}
	}
}

// reserve makes room for n more members. Nobody else adds while restoring.
func (s *set) reserve(n int32) *members {
	old := s.exact.Load()
	if old.used.Load()+n <= old.room() {
		return old
	}
	slots := int32(len(old.hashes))
	for slots*4/5 < old.used.Load()+n {
		slots *= 2
	}
	table := newMembers(int(slots), nil)
	old.each(func(hash uint64, tick uint32) { table.see(hash, tick) })
	s.exact.Store(table)
	return table
}

func (s *set) restoreSlot(d *blob.Decoder, r *restoring, index int) {
	unit := d.Uint32()
	list := d.Bytes(d.Uvarint())
	if d.Err != nil || !r.windows {
		return
	}
	if r.aheadUnit(index, unit) {
		d.Fail()
		return
	}
	if !readRegisters(list, s.slotLocked(index, &r.spans[index], unit).registers) {
		d.Fail()
	}
}
