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
	h.makeBody(func() *Body { return e.newSetBody() })
	k.Weigh(e, h)
}

// memberHash returns the seeded hash of a sample's member.
func (a *Applier) memberHash(s *metric.Sample, seed uint64) uint64 {
	a.digest.ResetWithSeed(seed)
	a.digest.Write(s.Member)
	return a.digest.Sum64()
}

func (setKind) apply(a *Applier, h Series, s *metric.Sample) metric.Reason {
	body := h.body()
	if !body.Set.Insert(a.memberHash(s, body.Set.seed), a.Now.Tick, Budget{a.Env, body}) {
		return metric.OverLimit
	}
	if former := body.former.Load(); former != nil {
		former.Insert(a.memberHash(s, former.seed), a.Now.Tick, Budget{a.Env, body})
	}
	return metric.Applied
}

func (setKind) ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason {
	body := h.body()
	for part := range body.setsLocked() {
		if !a.insertDatedLocked(body, part, tick, a.memberHash(s, part.seed)) {
			return metric.OverLimit
		}
	}
	h.Cell.History.Stamp = max(h.Cell.History.Stamp, tick)
	return metric.Applied
}

// insertDatedLocked adds a member's hash to an earlier tick. It returns false if there is no
// memory.
func (a *Applier) insertDatedLocked(body *Body, to *set, tick uint32, hash uint64) bool {
	if to.Many.Load() == nil {
		body.Rewritten = true
		return to.Insert(hash, tick, Budget{a.Env, body})
	}
	for i := range a.Spans {
		if sp := &a.Spans[i]; sp.Keeps(tick, a.Now.Tick) {
			slot := to.slotLocked(i, sp, sp.Unit(tick))
			slot.registers.insert(hash)
			slot.unsaved = true
		}
	}
	return true
}

func (setKind) ApplyPreAggregatedLocked(*Applier, Series, uint32, *metric.Sample) metric.Reason {
	return metric.Malformed
}

func (k setKind) RecordLocked(e *Env, h Series, tick uint32) {
	e.followSeedLocked(h, tick)
	for set := range h.body().setsLocked() {
		set.rollLocked(e.Spans, &e.Epochs, tick)
		set.MergeLocked(&e.Epochs, e.oldestTick(tick))
		set.renewLocked(e.oldestTick(tick))
	}
	h.Cell.History.Stamp = tick
	k.Weigh(e, h)
}

func (k setKind) ShrinkLocked(e *Env, h Series, now uint32) {
	e.followSeedLocked(h, now)
	for set := range h.body().setsLocked() {
		if e.idleLocked(h, now) {
			set.restLocked(&e.Epochs)
		}
		if set.resting != nil {
			set.rollLocked(e.Spans, &e.Epochs, now)
		}
		set.MergeLocked(&e.Epochs, e.oldestTick(now))
		set.renewLocked(e.oldestTick(now))
	}
	k.Weigh(e, h)
	h.Cell.History.Shrink(e.Logs, window.WholeCoding, now)
}

func (setKind) Weigh(e *Env, h Series) {
	body, bytes := h.body(), int64(0)
	for set := range body.setsLocked() {
		bytes += set.weightLocked(e.Spans)
	}
	e.Weigh(body, bytes)
}

func (setKind) Inherit(e *Env, from, to Series, at Remains) bool {
	body := to.body()
	for late := range from.body().setsLocked() {
		for heir := range body.setsLocked() {
			if heir.seed == late.seed {
				heir.inherit(late, at.Ended, Budget{e, body})
			}
		}
	}
	return true
}

func (setKind) DateLocked(Series) int64 { return 0 }

func (setKind) begin(r *Reader) { r.members = r.members[:0] }

func (setKind) ReadLocked(r *Reader, h Series) {
	body := h.body()
	for set := range body.setsLocked() {
		if set.lostTo != 0 && set.lostTo >= r.View.FirstTick {
			r.MissingReason, r.partial = "its memory is used up", true
		}
	}
	body.Set.readLocked(r.members.of(body.Set.seed), r.View)
	if former := body.former.Load(); former != nil && r.View.FirstTick <= former.since {
		former.readLocked(r.members.of(former.seed), r.View)
	}
}

func (setKind) value(r *Reader) (v float64, ok bool) {
	if r.Stat != metric.Unique {
		r.unsupportedStat = true
		return 0, false
	}
	return r.members.count(), true
}

func (setKind) SaveLocked(e *Env, dst []byte, h Series, since, sinceUnits uint32) []byte {
	return h.body().appendSetLocked(dst, e, since > 0, sinceUnits)
}

func (setKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	r.set(d, h)
	h.Cell.History.Stamp = r.CurrentTick(stamp)
}

func (setKind) RestoreNumber(d *blob.Decoder, _ Series) { d.Fail() }

// appendLocked appends the members from tick since on; to a delta also the registers that changed
// since the last one. flags stand above the number of members.
func (s *set) appendLocked(dst []byte, spans []window.Span, delta bool, since uint32, flags uint64) []byte {
	var list []byte
	n := uint64(0)
	s.Exact.Load().Each(func(hash uint64, tick uint32) {
		if tick >= since {
			list = binary.LittleEndian.AppendUint64(list, hash)
			list = binary.AppendUvarint(list, uint64(tick))
			n++
		}
	})
	dst = binary.AppendUvarint(dst, n|flags)
	if flags&hasSeed != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, s.seed)
	}
	dst = append(dst, list...)
	if s.manyBytesLocked() == 0 {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	for i := range spans {
		first, n := spans[i].Unit(since), 0
		for _, slot := range s.units[i] {
			if slot.unit >= first || delta && slot.unsaved {
				n++
			}
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for j := range s.units[i] {
			if slot := &s.units[i][j]; slot.unit >= first || delta && slot.unsaved {
				slot.unsaved = slot.unsaved && !delta
				dst = binary.AppendUvarint(dst, uint64(slot.unit))
				list := appendRegisters(nil, slot.registers)
				dst = append(binary.AppendUvarint(dst, uint64(len(list))), list...)
			}
		}
	}
	return dst
}

// restore reads the n members that follow, and the registers.
func (s *set) restore(d *blob.Decoder, r *Restorer, n uint32) {
	if uint64(n)*9 > uint64(len(d.Rest)) {
		d.Fail()
		return
	}
	table := s.reserve(int32(n), r.MayGrow)
	for ; n > 0 && d.Err == nil; n-- {
		hash, tick := d.Uint64(), d.Uint32()
		if tick = min(r.CurrentTick(tick), r.Today); d.Err == nil && !table.See(max(hash, 1), tick) {
			s.lostTo = max(s.lostTo, tick)
		}
	}
	if d.Byte() == 0 {
		return
	}
	for i := range r.Strides {
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			s.restoreSlot(d, r, i)
		}
	}
}

// reserve returns a table with space for n more members, unless there is no memory. Only restore
// calls it, without concurrent writers.
func (s *set) reserve(n int32, mayGrow func() bool) *members {
	old := s.Exact.Load()
	if old.used.Load()+n <= old.capacity() || !mayGrow() {
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
	sp := &r.Spans[index]
	if s.Many.Load() == nil && !r.MayGrow() {
		s.lostTo = max(s.lostTo, sp.FirstTick(unit+1)-1)
		return
	}
	s.Many.CompareAndSwap(nil, new(liveRegisters))
	if !readRegisters(list, s.slotLocked(index, sp, unit).registers) {
		d.Fail()
	}
}
