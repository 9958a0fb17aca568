package aggregate

import "math"

// restore reads what appendLocked appended.
func (t *timer) restore(d *decoder, r *restorer) {
	switch form := d.uvarint(); form {
	case pastWhole:
		t.restoreWhole(d, r)
	case pastLatest:
		t.restoreLatest(d, r)
	default:
		t.restoreFirst(d, r, form)
	}
}

func (t *timer) restoreWhole(d *decoder, r *restorer) {
	one := timer{folded: d.uint32(), past: make([]timerSlots, len(r.strides))}
	for i := range r.strides {
		for n := d.uvarint(); n > 0 && d.err == nil; n-- {
			if rec, raw := r.record(d, i); d.err == nil {
				if rec.unit <= one.past[i].newest {
					d.fail()
					return
				}
				if r.windows {
					one.past[i].note(rec.unit, raw, r.t.spans[i].kept())
				}
			}
		}
	}
	if r.windows && one.folded > one.past[0].newest {
		d.fail()
	}
	if d.err == nil && r.windows {
		t.folded, t.past = one.folded, one.past
	}
}

func (t *timer) restoreLatest(d *decoder, r *restorer) {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		if rec, raw := r.record(d, 0); d.err == nil && r.windows {
			t.restoreRecord(r.t.spans, rec.unit, raw)
		}
	}
}

// restoreRecord enters a record of the shortest span. A state may be newer than the records that are replayed on it: what it has
// folded, it has in its last form; what it has not is as the record says until a later one says more.
func (t *timer) restoreRecord(spans []span, unit uint32, raw []byte) {
	if t.past == nil {
		t.past = make([]timerSlots, len(spans))
	}
	fine, most := &t.past[0], spans[0].kept()
	switch {
	case unit <= t.folded:
	case unit > fine.newest && int(fine.count) == most && fine.oldest() > t.folded:
		t.foldLocked(spans)
		fallthrough
	default:
		fine.enter(unit, raw, most)
	}
}

// enter is note for a unit that may be older than the newest.
func (s *timerSlots) enter(unit uint32, raw []byte, most int) {
	if unit >= s.newest {
		s.note(unit, raw, most)
		return
	}
	all := s.records
	*s = timerSlots{}
	for entered := false; len(all) > 0; all = all[recordSize(all):] {
		at := recordUnit(all)
		if at >= unit && !entered {
			s.note(unit, raw, most)
			entered = true
		}
		if at != unit {
			s.note(at, all[:recordSize(all)], most)
		}
	}
}

// record reads a record of a span.
func (r *restorer) record(d *decoder, span int) (timerRecord, []byte) {
	list := d.rest
	rec, rest, ok := cutRecord(list)
	if !ok || math.IsNaN(rec.sum) || math.IsNaN(rec.min) || math.IsNaN(rec.max) || !soundBins(rec.bins) || r.aheadUnit(span, rec.unit) {
		d.fail()
		return rec, nil
	}
	d.rest = rest
	return rec, list[:len(list)-len(rest)]
}

func soundBins(list []byte) bool {
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	return d.addBins(list)
}

// restoreFirst reads the first format: all spans' slots, in no order, the longer ones with all that the shortest has.
func (t *timer) restoreFirst(d *decoder, r *restorer, n uint64) {
	one := distributions.Get().(*distribution)
	defer distributions.Put(one)
	if r.windows && t.past == nil {
		t.past = make([]timerSlots, len(r.t.spans))
	}
	for i := range r.strides {
		if i > 0 {
			n = d.uvarint()
		}
		for ; n > 0 && d.err == nil; n-- {
			unit := d.uint32()
			one.reset()
			one.extend(d.float(), d.float(), d.float())
			unsound := math.IsNaN(one.sum) || math.IsNaN(one.min) || math.IsNaN(one.max)
			if unsound || unit == 0 || !eachBin(d.bytes(d.uvarint()), one.add) || r.aheadUnit(i, unit) {
				d.fail()
			}
			if d.err == nil && r.windows {
				t.past[i].enter(unit, one.record(unit), r.t.spans[i].kept())
			}
		}
	}
	if r.windows {
		t.folded = t.past[0].newest // what comes next is noted later: see restorer.value
	}
}

// eachBin calls f for the bins of a slot of the first format: of each its weight and the distance from the one before. The lowest bit
// says that a distance other than 1 follows, the next that the weight is in units. It reports false for bytes that are
// not such a list.
func eachBin(list []byte, f func(bin int, weight uint64)) bool {
	d := decoder{rest: list}
	for bin := 0; d.more(); {
		head, gap := d.uvarint(), uint64(1)
		if head&1 != 0 {
			gap = d.uvarint()
		}
		weight := head >> 2
		if head&2 == 0 {
			weight *= weightUnits
		}
		if d.err != nil || gap >= uint64(binCount-bin) {
			return false
		}
		bin += int(gap)
		f(bin, weight)
	}
	return d.err == nil
}
