package aggregate

import (
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

func (r *restorer) counter(d *decoder, place, stamp uint32) {
	c := &r.b.page.cells[place]
	r.past(d, wholeCoding, &c.past, stamp)
	c.value.Store(c.past.rolled)
	has := d.byte()
	read := grid{r.past, readSum}
	if has&inNanos == 0 {
		read = grid{r.binaryPast, readBinarySum}
	}
	if has&hasFraction != 0 {
		body := r.b.makeBody(place, newFraction)
		read.past(d, wholeCoding, &body.fraction.past, d.uint32())
		body.fraction.units.Store(int64(body.fraction.past.rolled))
	}
	if has&hasRunning != 0 {
		one := &running{client: read.sum(d), remainder: read.sum(d), origin: readOrigin(d)}
		r.b.makeBody(place, newFraction).running = one
	}
	if has > hasFraction|hasRunning|inNanos {
		d.fail()
	}
}

func readSum(d *decoder) sum {
	s := sum{d.varint(), d.uvarint()}
	if s.fraction >= fractionUnits {
		d.fail()
	}
	return s
}

func readOrigin(d *decoder) origin { return origin{started: d.varint(), at: d.varint()} }

// pushed reads what pushed.appendLocked appended into p, which may hold what an earlier record said.
func (r *restorer) pushed(d *decoder, p *pushed) {
	p.origin = readOrigin(d)
	p.quantiles = readQuantiles(d)
	if before := p.last; d.byte() != 0 {
		p.last = &cumulative{readPart(d), readCountable(d), d.float()}
		if before != nil && slices.Equal(before.bounds, p.last.bounds) {
			p.last.bounds = before.bounds // as the slots of earlier records share them
		}
	}
	for i := range r.strides {
		for n := d.uvarint(); n > 0 && d.err == nil; n-- {
			slot := readPushedSlot(d, p.last)
			if r.aheadUnit(i, slot.unit) {
				d.fail()
			}
			if d.err == nil && r.windows {
				*p.slotLocked(i, &r.t.spans[i], slot.unit) = slot
			}
		}
	}
	bounds := 0
	if p.last != nil {
		bounds = len(p.last.bounds)
	}
	p.reserved = p.needs(bounds, len(p.quantiles))
}

func readQuantiles(d *decoder) (all []metric.Quantile) {
	n := d.uvarint()
	if n > metric.MaxQuantiles {
		d.fail()
		return nil
	}
	for range n {
		all = append(all, metric.Quantile{Q: d.float(), Value: d.float()})
	}
	return all
}

func readPushedSlot(d *decoder, last *cumulative) pushedSlot {
	slot := pushedSlot{unit: d.uint32(), gain: gain{readCountable(d), d.float(), d.float(), d.float()}}
	n := d.uvarint()
	if n > maxParts || slot.unit == 0 || math.IsNaN(slot.min) || math.IsNaN(slot.max) {
		d.fail()
		return slot
	}
	for range n {
		one := part{}
		if shared := d.byte() != 0; !shared {
			one = readPart(d)
		} else if last != nil {
			one = part{last.bounds, readCounts(d, len(last.bounds))}
		}
		if len(one.bounds) == 0 {
			d.fail()
		}
		slot.parts = append(slot.parts, one)
	}
	return slot
}

func readPart(d *decoder) part {
	n := d.uvarint()
	if n > metric.MaxBounds {
		d.fail()
	}
	if n == 0 || d.err != nil {
		return part{}
	}
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = d.float()
	}
	if !metric.Increasing(bounds) {
		d.fail()
	}
	return part{bounds, readCounts(d, len(bounds))}
}

// counts reads those of as many bounds.
func readCounts(d *decoder, bounds int) []float64 {
	if bounds == 0 {
		return nil
	}
	counts := make([]float64, bounds+1)
	for i := range counts {
		v := d.uvarint()
		if counts[i] = float64(v >> 1); v&1 != 0 {
			counts[i] = readCountable(d)
		}
	}
	return counts
}

// countable is a number of observations.
func readCountable(d *decoder) float64 {
	v := d.float()
	if !(v >= 0 && v <= math.MaxFloat64) {
		d.fail()
		return 0
	}
	return v
}
