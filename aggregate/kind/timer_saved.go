package kind

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// restore reads the output of AppendLocked, in any format.
func (t *timer) restore(d *blob.Decoder, r *Restorer) {
	switch form := d.Uvarint(); form {
	case formWhole:
		t.restoreWhole(d, r)
	case formLatest:
		t.restoreLatest(d, r)
	default:
		t.restoreFirst(d, r, form)
	}
}

func (t *timer) restoreWhole(d *blob.Decoder, r *Restorer) {
	one := timer{folded: d.Uint32(), units: make([]timerSlots, len(r.Strides))}
	for i := range r.Strides {
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			if rec, raw := r.record(d, i); d.Err == nil {
				if rec.unit <= one.units[i].newest {
					d.Fail()
					return
				}
				if r.SameWindows {
					one.units[i].setNewest(rec.unit, raw, r.Spans[i].Kept())
				}
			}
		}
	}
	if r.SameWindows && one.folded > one.units[0].newest {
		d.Fail()
	}
	if d.Err == nil && r.SameWindows {
		t.folded, t.units = one.folded, one.units
	}
}

func (t *timer) restoreLatest(d *blob.Decoder, r *Restorer) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		if rec, raw := r.record(d, 0); d.Err == nil && r.SameWindows {
			t.restoreRecord(r.Spans, rec.unit, raw)
		}
	}
}

// restoreRecord enters a record of the shortest span. The state may be newer than the delta that is
// replayed on it. Folded units are complete, so their records are ignored. A record of another unit
// replaces the unit's record, until a later delta replaces it again.
func (t *timer) restoreRecord(spans []window.Span, unit uint32, raw []byte) {
	if t.units == nil {
		t.units = make([]timerSlots, len(spans))
	}
	fine, limit := &t.units[0], spans[0].Kept()
	switch {
	case unit <= t.folded:
	case unit > fine.newest && int(fine.count) == limit && fine.oldest() > t.folded:
		t.foldLocked(spans)
		fallthrough
	default:
		fine.enter(unit, raw, limit)
	}
}

// enter is setNewest for a unit that may be older than the newest.
func (s *timerSlots) enter(unit uint32, raw []byte, limit int) {
	if unit >= s.newest {
		s.setNewest(unit, raw, limit)
		return
	}
	all := s.records
	*s = timerSlots{}
	for entered := false; len(all) > 0; all = all[recordSize(all):] {
		at := recordUnit(all)
		if at >= unit && !entered {
			s.setNewest(unit, raw, limit)
			entered = true
		}
		if at != unit {
			s.setNewest(at, all[:recordSize(all)], limit)
		}
	}
}

// record reads and checks a record of a span.
func (r *Restorer) record(d *blob.Decoder, span int) (timerRecord, []byte) {
	list := d.Rest
	rec, rest, ok := cutRecord(list)
	if !ok || math.IsNaN(rec.sum) || math.IsNaN(rec.min) || math.IsNaN(rec.max) || !soundBins(rec.bins) ||
		r.aheadUnit(span, rec.unit) {
		d.Fail()
		return rec, nil
	}
	d.Rest = rest
	return rec, list[:len(list)-len(rest)]
}

func soundBins(list []byte) bool {
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	return d.addBins(list)
}

// restoreFirst reads the first format: the slots of all spans, unordered. Each longer span includes
// all observations of the shortest.
func (t *timer) restoreFirst(d *blob.Decoder, r *Restorer, n uint64) {
	one := distributions.Get().(*distribution)
	defer distributions.Put(one)
	if r.SameWindows && t.units == nil {
		t.units = make([]timerSlots, len(r.Spans))
	}
	for i := range r.Strides {
		if i > 0 {
			n = d.Uvarint()
		}
		for ; n > 0 && d.Err == nil; n-- {
			unit := d.Uint32()
			one.reset()
			one.extend(d.Float(), d.Float(), d.Float())
			unsound := math.IsNaN(one.Sum) || math.IsNaN(one.min) || math.IsNaN(one.max)
			if unsound || unit == 0 || !eachBin(d.Bytes(d.Uvarint()), one.add) || r.aheadUnit(i, unit) {
				d.Fail()
			}
			if d.Err == nil && r.SameWindows {
				t.units[i].enter(unit, one.record(unit), r.Spans[i].Kept())
			}
		}
	}
	if r.SameWindows {
		t.folded = t.units[0].newest // later observations get later units: see timerKind.Restore
	}
}

// eachBin calls f for the bins of a slot of the first format. A bin is a varint and an optional
// gap, its distance from the bin before. Bit 0 of the varint: a gap follows (otherwise it is 1).
// Bit 1: the weight, which is the rest, is in units instead of observations. It returns false if
// the list is invalid.
func eachBin(list []byte, f func(bin int, weight uint64)) bool {
	d := blob.Decoder{Rest: list}
	for bin := 0; d.More(); {
		head, gap := d.Uvarint(), uint64(1)
		if head&1 != 0 {
			gap = d.Uvarint()
		}
		weight := head >> 2
		if head&2 == 0 {
			weight *= WeightUnits
		}
		if d.Err != nil || gap >= uint64(BinCount-bin) {
			return false
		}
		bin += int(gap)
		f(bin, weight)
	}
	return d.Err == nil
}

// Forms of a timer's saved state. The first format had none and began with the number of slots of
// the shortest span, which is less than 64.
const (
	// formWhole: folded, and all records of all spans. They replace the restored records.
	formWhole = 64 + iota
	// formLatest: the newest records of the shortest span. Restoring folds them as the writer did.
	formLatest
	// TimerCounted: the history of the weight, then formWhole or formLatest.
	TimerCounted
	// timerSummed: the sum of all observations, then TimerCounted.
	timerSummed
	// timerBucketed: the totals of the buckets, then timerSummed.
	timerBucketed
)

// restoreTotals reads the totals since the birth, if the state has them.
func (t *timer) restoreTotals(d *blob.Decoder, buckets bool) {
	if len(d.Rest) > 0 && d.Rest[0] == timerBucketed {
		d.Byte()
		if b := readBucketTotals(d); buckets {
			t.buckets = b
		}
	}
	if len(d.Rest) > 0 && d.Rest[0] == timerSummed {
		d.Byte()
		if t.sum = d.Float(); math.IsInf(t.sum, 0) {
			d.Fail()
		}
	}
}

// AppendLocked appends the records from tick since on.
func (t *timer) AppendLocked(dst []byte, spans []window.Span, since uint32) []byte {
	if t.units == nil {
		return append(dst, formLatest, 0)
	}
	fine, first := &t.units[0], spans[0].Unit(since)
	if since > 0 && (int(fine.count) < spans[0].Kept() || fine.oldest() <= first) {
		return fine.appendSince(append(dst, formLatest), first)
	}
	dst = binary.AppendUvarint(append(dst, formWhole), uint64(t.folded))
	for i := range t.units {
		dst = t.units[i].appendSince(dst, 0)
	}
	return dst
}

func (s *timerSlots) appendSince(dst []byte, first uint32) []byte {
	records, n := s.since(first)
	return append(binary.AppendUvarint(dst, uint64(n)), records...)
}
