package kind

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// setKind is the behaviour of sets. The body holds the members (set_body.go). The cell's history
// has no log, only the tick of the newest members.
type setKind struct{}

func (setKind) Coding() window.Coding { return window.WholeCoding }

func (setKind) check(*metric.Sample) metric.Reason { return metric.Applied }

func (setKind) checkPreAggregated(*metric.Sample) metric.Reason { return metric.Malformed }

func (k setKind) Create(e *Env, h Series) {
	h.makeBody(func() *Body { return &Body{Set: NewSet(e.Spans)} })
	k.Weigh(e, h)
}

// memberHash returns the seeded hash of a sample's member.
func (a *Applier) memberHash(s *metric.Sample) uint64 {
	a.digest.ResetWithSeed(a.SetSeed)
	a.digest.Write(s.Member)
	return a.digest.Sum64()
}

func (setKind) apply(a *Applier, h Series, s *metric.Sample) metric.Reason {
	body := h.body()
	if !body.Set.Insert(a.memberHash(s), a.Now.Tick, Budget{a.Env, body}) {
		return metric.OverLimit
	}
	return metric.Applied
}

func (setKind) ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason {
	body, hash := h.body(), a.memberHash(s)
	body.Rewritten = true
	if body.Set.Many.Load() == nil {
		if !body.Set.Insert(hash, tick, Budget{a.Env, body}) {
			return metric.OverLimit
		}
	} else {
		for i := range a.Spans {
			if sp := &a.Spans[i]; sp.Keeps(tick, a.Now.Tick) {
				body.Set.slotLocked(i, sp, sp.Unit(tick)).registers.insert(hash)
			}
		}
	}
	h.Cell.History.Stamp = max(h.Cell.History.Stamp, tick)
	return metric.Applied
}

func (setKind) ApplyPreAggregatedLocked(*Applier, Series, uint32, *metric.Sample) metric.Reason {
	return metric.Malformed
}

func (k setKind) RecordLocked(e *Env, h Series, tick uint32) {
	set := h.body().Set
	set.rollLocked(e.Spans, tick)
	set.MergeLocked(&e.Epochs, e.oldestTick(tick))
	set.renewLocked(e.oldestTick(tick))
	h.Cell.History.Stamp = tick
	k.Weigh(e, h)
}

func (k setKind) ShrinkLocked(e *Env, h Series, now uint32) {
	set := h.body().Set
	if e.idleLocked(h, now) {
		set.forgetLocked()
	}
	set.MergeLocked(&e.Epochs, e.oldestTick(now))
	set.renewLocked(e.oldestTick(now))
	k.Weigh(e, h)
	h.Cell.History.Shrink(e.Logs, window.WholeCoding, now)
}

func (setKind) Weigh(e *Env, h Series) {
	body := h.body()
	e.Weigh(body, body.Set.BytesLocked())
}

func (setKind) Inherit(e *Env, from, to Series, at Remains) bool {
	body := to.body()
	from.body().Set.Exact.Load().Each(func(hash uint64, tick uint32) {
		if tick >= at.Ended {
			body.Set.Insert(hash, tick, Budget{e, body})
		}
	})
	return true
}

func (setKind) TimestampLocked(Series) int64 { return 0 }

func (setKind) begin(r *Reader) { r.members = newUnion() }

func (setKind) ReadLocked(r *Reader, h Series) { h.body().Set.readLocked(r.members, r.View) }

func (setKind) value(r *Reader) (v float64, ok bool) {
	if r.Stat != metric.Unique {
		r.unsupportedStat = true
		return 0, false
	}
	return r.members.count(), true
}

func (setKind) SaveLocked(e *Env, dst []byte, h Series, _, sinceUnits uint32) []byte {
	return h.body().Set.appendLocked(dst, e.Spans, sinceUnits)
}

func (setKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	h.body().Set.restore(d, r)
	h.Cell.History.Stamp = r.CurrentTick(stamp)
}

func (setKind) RestoreNumber(d *blob.Decoder, _ Series) { d.Fail() }

func (s *set) appendLocked(dst []byte, spans []window.Span, since uint32) []byte {
	var list []byte
	n := uint64(0)
	s.Exact.Load().Each(func(hash uint64, tick uint32) {
		if tick >= since {
			list = binary.LittleEndian.AppendUint64(list, hash)
			list = binary.AppendUvarint(list, uint64(tick))
			n++
		}
	})
	dst = append(binary.AppendUvarint(dst, n), list...)
	if s.Many.Load() == nil {
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

func (s *set) restore(d *blob.Decoder, r *Restorer) {
	n := d.Uint32()
	if uint64(n)*9 > uint64(len(d.Rest)) {
		d.Fail()
		return
	}
	table := s.reserve(int32(n))
	for ; n > 0 && d.Err == nil; n-- {
		hash, tick := d.Uint64(), d.Uint32()
		if d.Err == nil {
			table.See(max(hash, 1), min(r.CurrentTick(tick), r.Today))
		}
	}
	if d.Byte() == 0 {
		return
	}
	s.Many.CompareAndSwap(nil, new(liveRegisters))
	for i := range r.Strides {
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			s.restoreSlot(d, r, i)
		}
	}
}

// reserve returns a table with space for n more members. Only restore calls it, without concurrent
// writers.
func (s *set) reserve(n int32) *members {
	old := s.Exact.Load()
	if old.used.Load()+n <= old.capacity() {
		return old
	}
	slots := int32(len(old.Hashes))
	for slots*4/5 < old.used.Load()+n {
		slots *= 2
	}
	table := newMembers(int(slots), nil)
	old.Each(func(hash uint64, tick uint32) { table.See(hash, tick) })
	s.Exact.Store(table)
	return table
}

func (s *set) restoreSlot(d *blob.Decoder, r *Restorer, index int) {
	unit := d.Uint32()
	list := d.Bytes(d.Uvarint())
	if d.Err != nil || !r.SameWindows {
		return
	}
	if r.aheadUnit(index, unit) {
		d.Fail()
		return
	}
	if !readRegisters(list, s.slotLocked(index, &r.Spans[index], unit).registers) {
		d.Fail()
	}
}
