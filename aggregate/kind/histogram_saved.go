package kind

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/metric"
)

// pushed reads the output of pushed.appendLocked. It updates p, which may hold the state of an
// earlier delta.
func (r *Restorer) pushed(d *blob.Decoder, p *pushed) {
	p.progress = readProgress(d)
	p.quantiles = readQuantiles(d)
	if d.Byte() != 0 {
		p.last = &cumulative{readPart(d), readCountable(d), d.Float()}
		p.share(&p.last.part)
	}
	for i := range r.Strides {
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			slot := readPushedSlot(d, p.last)
			for at := range slot.parts {
				p.share(&slot.parts[at])
			}
			if r.aheadUnit(i, slot.unit) {
				d.Fail()
			}
			if d.Err == nil && r.SameWindows {
				*p.slotLocked(i, &r.Spans[i], slot.unit) = slot
			}
		}
	}
	if p.last != nil {
		p.share(&p.last.part)
	}
	if d.More() {
		p.readMoves(d)
	}
}

func readQuantiles(d *blob.Decoder) (all []metric.Quantile) {
	n := d.Uvarint()
	if n > metric.MaxQuantiles {
		d.Fail()
		return nil
	}
	for range n {
		all = append(all, metric.Quantile{Q: d.Float(), Value: d.Float()})
	}
	return all
}

func readPushedSlot(d *blob.Decoder, last *cumulative) pushedSlot {
	slot := pushedSlot{unit: d.Uint32(), gain: gain{readCountable(d), d.Float(), d.Float(), d.Float()}}
	n := d.Uvarint()
	if n > maxParts || slot.unit == 0 || math.IsNaN(slot.min) || math.IsNaN(slot.max) {
		d.Fail()
		return slot
	}
	for range n {
		p := part{}
		if shared := d.Byte() != 0; !shared {
			p = readPart(d)
		} else if last != nil {
			p = part{last.bounds, readCounts(d, len(last.bounds))}
		}
		if len(p.bounds) == 0 {
			d.Fail()
		}
		slot.parts = append(slot.parts, p)
	}
	return slot
}

func readPart(d *blob.Decoder) part {
	n := d.Uvarint()
	if n > metric.MaxBounds {
		d.Fail()
	}
	if n == 0 || d.Err != nil {
		return part{}
	}
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = d.Float()
	}
	if !metric.Increasing(bounds) {
		d.Fail()
	}
	return part{bounds, readCounts(d, len(bounds))}
}

// readCounts reads the counts of a part with so many bounds.
func readCounts(d *blob.Decoder, bounds int) []float64 {
	if bounds == 0 {
		return nil
	}
	counts := make([]float64, bounds+1)
	for i := range counts {
		v := d.Uvarint()
		if counts[i] = float64(v >> 1); v&1 != 0 {
			counts[i] = readCountable(d)
		}
	}
	return counts
}

// readCountable reads a number of observations.
func readCountable(d *blob.Decoder) float64 {
	v := d.Float()
	if !(v >= 0 && v <= math.MaxFloat64) {
		d.Fail()
		return 0
	}
	return v
}

// appendLocked appends the newest total and the slots, and a replica's number of pushes. They follow
// the records of a timer, and only timers with histograms have them, so states of older versions stay
// readable. A delta, since > 0, has the slots that changed since the last one: a late histogram
// changes one slot of each span. A state has those of units from sinceUnits on.
func (p *pushed) appendLocked(dst []byte, e *Env, since, sinceUnits uint32) []byte {
	if p == nil {
		return dst
	}
	spans := e.Spans
	dst = p.progress.append(dst)
	dst = binary.AppendUvarint(dst, uint64(len(p.quantiles)))
	for _, quantile := range p.quantiles {
		dst = blob.AppendFloat(blob.AppendFloat(dst, quantile.Q), quantile.Value)
	}
	if p.last == nil {
		dst = append(dst, 0)
	} else {
		dst = p.last.part.append(append(dst, 1))
		dst = blob.AppendFloat(blob.AppendFloat(dst, p.last.count), p.last.sum)
	}
	for i := range spans {
		first, n := spans[i].Unit(sinceUnits), 0
		for j := range p.units[i] {
			if p.units[i][j].isIn(since, first) {
				n++
			}
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for j := range p.units[i] {
			if slot := &p.units[i][j]; slot.isIn(since, first) {
				dst = slot.append(dst, p.last)
				slot.unsaved = slot.unsaved && since == 0
			}
		}
	}
	if e.Replicated {
		dst = p.appendMoves(dst)
	}
	return dst
}

func (s *pushedSlot) isIn(since, first uint32) bool {
	if since > 0 {
		return s.unsaved
	}
	return s.unit >= first
}

func (s *pushedSlot) append(dst []byte, last *cumulative) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.unit))
	dst = blob.AppendFloat(blob.AppendFloat(blob.AppendFloat(blob.AppendFloat(dst, s.count), s.sum), s.min), s.max)
	dst = binary.AppendUvarint(dst, uint64(len(s.parts)))
	for _, p := range s.parts {
		if last != nil && sameBounds(p.bounds, last.bounds) {
			dst = appendCounts(append(dst, 1), p.counts)
		} else {
			dst = p.append(append(dst, 0))
		}
	}
	return dst
}

func (p part) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.bounds)))
	for _, v := range p.bounds {
		dst = blob.AppendFloat(dst, v)
	}
	return appendCounts(dst, p.counts)
}

// appendCounts appends counts. Nearly all are small integers and take a byte or two.
func appendCounts(dst []byte, counts []float64) []byte {
	for _, n := range counts {
		if n == math.Trunc(n) && n < 1<<53 {
			dst = binary.AppendUvarint(dst, uint64(n)<<1)
		} else {
			dst = blob.AppendFloat(append(dst, 1), n)
		}
	}
	return dst
}
