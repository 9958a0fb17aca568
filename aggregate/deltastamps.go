package aggregate

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

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
		for _, one := range all[:n] {
			d.dst = binary.AppendUvarint(d.dst, uint64(one.place-next))
			d.dst = binary.AppendVarint(d.dst, int64(one.at-before))
			next, before = one.place+1, one.at
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
