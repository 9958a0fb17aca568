package aggregate

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// Most changed series are counters and gauges without a body that changed in the same tick. A delta
// groups them into runs and writes their common fields once:
//
//	record type  [mark]  state  earlier entries  habit  numbers in the run, then for each:
//	  places skipped  value  [ticks since the change]  steps back to the earlier entries
//
// The mark holds the tick of the last record. A gauge's value is followed by the number of ticks
// between its last change and that tick. Earlier entries are the history entries since the last
// delta. Each step back from the newest entry is a number of ticks and the change of the value.

// commons holds the fields besides the mark that all numbers of a run share.
type commons struct {
	state   uint32
	earlier uint32 // history entries since the last delta, the newest excluded
	habit   uint8  // see window.History.Habit
}

// run is the run that a delta is appending to.
type run struct {
	commons
	counted int    // index of the run's count in the delta; 0: there is no run
	place   uint32 // the place after the last number's
}

const longestRun = math.MaxUint8

// plainLocked reports whether a series is a counter or gauge without a body.
func (b *block) plainLocked(place uint32) bool {
	switch b.page.kinds[place] {
	case metric.Counter, metric.Gauge:
		return b.body(place) == nil
	}
	return false
}

// appendNumberLocked appends a plain number to the run. It begins another run if the number's mark
// or common fields differ, or the run is full.
func (d *delta) appendNumberLocked(place uint32) {
	b, p, c := d.b, &d.b.page.cells[place].History, kind.Of(d.b.page.kinds[place]).Coding()
	own := b.markLocked(place)
	habit := p.Habit(d.t.Logs, true)
	if d.t.Replicated && b.page.kinds[place] == metric.Gauge {
		d.noteStampLocked(place)
	}
	d.notes = p.Since(d.t.Logs, c, b.saved, habit, d.notes[:0])
	common := commons{b.page.cells[place].State.Load(), uint32(len(d.notes) - 1), habit}
	if r := &d.run; r.counted == 0 || own != d.before || common != r.commons || d.dst[r.counted] == longestRun {
		d.beginRun(own, common)
	}
	d.dst[d.run.counted]++
	d.dst = binary.AppendUvarint(d.dst, uint64(place-d.run.place))
	d.run.place = place + 1
	d.dst = c.Append(d.dst, p.Newest)
	d.dst = c.AppendEarlier(d.dst, p.Stamp, d.notes)
}

func (d *delta) beginRun(own mark, common commons) {
	if own == d.before {
		d.dst = append(d.dst, recordNumbersAlike)
	} else {
		d.dst = own.append(append(d.dst, recordNumbers))
	}
	d.dst = binary.AppendUvarint(d.dst, uint64(common.state))
	d.dst = binary.AppendUvarint(d.dst, uint64(common.earlier))
	d.dst = append(d.dst, common.habit, 0)
	d.before, d.run = own, run{commons: common, counted: len(d.dst) - 1}
}

// numbers reads a run. alike: the run has the mark of the previous value and carries none.
func (r *restorer) numbers(d *blob.Decoder, alike bool) {
	if !alike {
		r.mark = readMark(d)
	}
	common := commons{state: d.Uint32(), earlier: d.Uint32(), habit: d.Byte()}
	readPlaces(d, func(place uint32) { r.number(d, place, common) })
}

// readPlaces calls f for each place of a run. f reads the rest of the number.
func readPlaces(d *blob.Decoder, f func(place uint32)) {
	place := uint64(0)
	for n := d.Byte(); n > 0 && d.Err == nil; n-- {
		place += d.Uvarint() & math.MaxUint32
		if place >= kind.BlockSeries {
			d.Fail()
			return
		}
		f(uint32(place))
		place++
	}
}

// number reads one number of a run.
func (r *restorer) number(d *blob.Decoder, place uint32, common commons) {
	c := kind.CodingOf(r.b.page.kinds[place])
	newest := c.Unpack(d.Uvarint())
	r.Earlier(d, c, uint64(common.earlier))
	r.step()
	r.b.history.Lock()
	defer r.b.history.Unlock()
	if r.takesLocked(d, place, common.state); !r.took || d.Err != nil {
		return
	}
	cell := &r.b.page.cells[place]
	r.RestoreEntries(d, c, &cell.History, r.mark.stamp, newest, common.habit)
	kind.Of(r.b.page.kinds[place]).RestoreNumber(d, r.b.handle(place))
	r.unstampedLocked(place)
	r.tookLocked(d, place)
}

// Older formats save no history entries. They hold the value of a number at the end of each unit of
// each window. These records are read but never written.

// unitRun reads a run of an older format: the number of units of each window, which its numbers
// have in common, then the numbers.
func (r *restorer) unitRun(d *blob.Decoder, alike bool) {
	if !alike {
		r.mark = readMark(d)
	}
	state := d.Uint32()
	units := d.Bytes(uint64(len(r.Strides)))
	if len(units) < len(r.Strides) {
		return // the blob is too short: Bytes has failed the decoder
	}
	readPlaces(d, func(place uint32) { r.unitNumber(d, place, state, units) })
}

// unitNumber reads one number of such a run.
func (r *restorer) unitNumber(d *blob.Decoder, place, state uint32, units []byte) {
	rolled := d.Uvarint()
	r.BeginUnits()
	for i := range r.Strides {
		v := rolled
		for age := uint64(units[i]); age > 1 && d.Err == nil; age-- {
			v += uint64(d.Varint())
			r.AddUnitValue(i, age-1, v)
		}
	}
	r.b.history.Lock()
	defer r.b.history.Unlock()
	if r.takesLocked(d, place, state); !r.took || d.Err != nil {
		return
	}
	kind := kind.Of(r.b.page.kinds[place])
	r.UnitEntries(d, kind.Coding(), &r.b.page.cells[place].History, r.mark.stamp, rolled)
	kind.RestoreNumber(d, r.b.handle(place))
	r.unstampedLocked(place)
	r.tookLocked(d, place)
}

// A delta of a replica ends with the stamps of the gauges in its runs (kind/gauge_order.go). They
// stand apart, so a run is as compact as without them:
//
//	record type  state  number of stamps, then for each:
//	  places skipped  milliseconds since the stamp before
//
// recordOrdered stands before the first run with a gauge. Without it, gauges get the time of their
// newest record: the delta was written before the table became a replica.

// stampNote is the stamp of a gauge in a run.
type stampNote struct {
	place, state uint32
	at           uint64
}

// noteStampLocked keeps a gauge's stamp for appendStamps.
func (d *delta) noteStampLocked(place uint32) {
	if len(d.stamps) == 0 {
		d.dst, d.run = append(d.dst, recordOrdered), run{}
	}
	state := d.b.page.cells[place].State.Load()
	d.stamps = append(d.stamps, stampNote{place, state, kind.StampLocked(d.b.handle(place))})
}

// appendStamps appends the stamps, in one record for each run of equal states.
func (d *delta) appendStamps() {
	before := uint64(0)
	for all := d.stamps; len(all) > 0; {
		n := 1
		for n < len(all) && all[n].state == all[0].state {
			n++
		}
		d.dst = binary.AppendUvarint(append(d.dst, recordStamps), uint64(all[0].state))
		d.dst = binary.AppendUvarint(d.dst, uint64(n))
		next := uint32(0)
		for _, s := range all[:n] {
			d.dst = binary.AppendUvarint(d.dst, uint64(s.place-next))
			d.dst = binary.AppendVarint(d.dst, int64(s.at-before))
			next, before = s.place+1, s.at
		}
		all = all[n:]
	}
}

// stamps reads a record of stamps.
func (r *restorer) stamps(d *blob.Decoder) {
	state, n, next := d.Uint32(), d.Uvarint(), uint64(0)
	for ; n > 0 && d.Err == nil; n-- {
		place := next + uint64(d.Uint32())
		r.stamp += uint64(d.Varint())
		if next = place + 1; place >= kind.BlockSeries {
			d.Fail()
			return
		}
		r.stampGauge(uint32(place), state, r.stamp)
	}
}

// stampGauge gives a gauge without a body its stamp, if the place still has the series.
func (r *restorer) stampGauge(place, state uint32, at uint64) {
	r.b.history.Lock()
	defer r.b.history.Unlock()
	if state&kind.Live == 0 || r.stateOf(place) != state {
		return
	}
	if r.Replicated && r.plainGaugeLocked(place) {
		r.RestoreStamp(r.b.handle(place), at)
	}
}

func (r *restorer) plainGaugeLocked(place uint32) bool {
	return r.b.page.kinds[place] == metric.Gauge && r.b.page.cells[place].Value.Load() != kind.GaugeMoved
}

// unstampedLocked gives a gauge in a run without stamps the time of its newest record.
func (r *restorer) unstampedLocked(place uint32) {
	if r.Replicated && !r.ordered && r.plainGaugeLocked(place) {
		r.RestoreStamp(r.b.handle(place), 0)
	}
}
