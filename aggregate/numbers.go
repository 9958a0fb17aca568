package aggregate

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// Nearly all that changes are plain counters and gauges, which changed in the same tick and are known for as many units. A delta
// says once, for a run of them, what they have in common:
//
//	kind  [mark]  state  units of each span  how many  then for each: places skipped  value  differences of each span
//
// Of a span with n units there are n-1 differences, the oldest first: to where the newest stands, then each to the one before.
// The newest unit has the value itself.

// commons is what the numbers of a run share beside their mark.
type commons struct {
	state uint32
	units [maxWindows]uint8 // 0: there is no ring
}

// run is the run that a delta is at.
type run struct {
	commons
	counted int // where in the delta its length stands; 0: there is none
	place   uint32
}

const longestRun = math.MaxUint8

// plainLocked reports whether a series is a number without a body.
func (b *block) plainLocked(place uint32) bool {
	switch b.page.kinds[place] {
	case metric.Counter, metric.Gauge:
		return b.body(place) == nil
	}
	return false
}

// appendNumberLocked appends a plain number to the run, or begins another one with it.
func (d *delta) appendNumberLocked(place uint32) {
	b, p := d.b, &d.b.page.cells[place].past
	own := b.markLocked(place)
	common := commons{b.page.cells[place].state.Load(), d.t.rings.unitsSince(p, b.saved)}
	if r := &d.run; r.counted == 0 || own != d.before || common != r.commons || d.dst[r.counted] == longestRun {
		d.beginRun(own, common)
	}
	d.dst[d.run.counted]++
	d.dst = binary.AppendUvarint(d.dst, uint64(place-d.run.place))
	d.run.place = place + 1
	d.dst = binary.AppendUvarint(d.dst, p.rolled)
	if p.ring != 0 {
		d.dst = d.t.rings.appendEarlier(d.dst, p, common.units)
	}
}

func (d *delta) beginRun(own mark, common commons) {
	if own == d.before {
		d.dst = append(d.dst, recordRunAlike)
	} else {
		d.dst = own.append(append(d.dst, recordRun))
	}
	d.dst = binary.AppendUvarint(d.dst, uint64(common.state))
	d.dst = append(d.dst, common.units[:len(d.t.spans)]...)
	d.dst = append(d.dst, 0)
	d.before, d.run = own, run{commons: common, counted: len(d.dst) - 1}
}

// unitsSince is how many units each span of a past has from the one of a tick on.
func (r *rings) unitsSince(p *past, tick uint32) (units [maxWindows]uint8) {
	if p.ring == 0 {
		return units
	}
	head, _ := r.open(p.ring)
	for i := range r.spans {
		sp := &r.spans[i]
		newest := sp.unit(p.stamp)
		units[i] = uint8(min(uint32(head.counts[i]), newest-min(sp.unit(tick), newest)+1))
	}
	return units
}

// appendEarlier appends how the value stood at the end of all of so many units but the newest.
func (r *rings) appendEarlier(dst []byte, p *past, units [maxWindows]uint8) []byte {
	_, values := r.open(p.ring)
	for i := range r.spans {
		sp := &r.spans[i]
		newest, before := sp.unit(p.stamp), p.rolled
		for age := uint32(units[i]); age > 1; age-- {
			v := values.get(sp, newest-age+1, p.rolled)
			dst = binary.AppendVarint(dst, int64(v-before))
			before = v
		}
	}
	return dst
}

// run reads what appendNumberLocked appended.
func (r *restorer) run(d *decoder, alike bool) {
	if !alike {
		r.mark = d.mark()
	}
	common := commons{state: d.uint32()}
	copy(common.units[:], d.bytes(uint64(r.spans)))
	place := uint64(0)
	for n := d.byte(); n > 0 && d.err == nil; n-- {
		place += d.uvarint() & math.MaxUint32
		if place >= blockSeries {
			d.fail()
			return
		}
		r.number(d, uint32(place), &common)
		place++
	}
}

// number reads one number of a run.
func (r *restorer) number(d *decoder, place uint32, common *commons) {
	rolled := d.uvarint()
	earlier := r.earlier[:0]
	for i := range r.spans {
		v := rolled
		for age := common.units[i]; age > 1 && d.err == nil; age-- {
			v += uint64(d.varint())
			earlier = append(earlier, v)
		}
	}
	r.earlier = earlier
	if r.takes(d, place, common.state); !r.took || d.err != nil {
		return
	}
	c := &r.b.page.cells[place]
	r.newest(&c.past, r.mark.stamp, rolled, common.units != [maxWindows]uint8{})
	for i := range r.spans {
		for age := common.units[i]; age > 1; age-- {
			r.unit(d, &c.past, i, uint64(age-1), earlier[0])
			earlier = earlier[1:]
		}
		if common.units[i] > 0 {
			r.unit(d, &c.past, i, 0, rolled)
		}
	}
	switch r.b.page.kinds[place] {
	case metric.Counter:
		c.value.Store(c.past.rolled)
	case metric.Gauge:
		r.gauge(d, place, 0)
	default:
		d.fail()
	}
}
