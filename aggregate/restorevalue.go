package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
)

// sizedValue reads a length and a value. alike: the value has the mark of the previous one and
// carries none.
func (r *restorer) sizedValue(d *blob.Decoder, alike bool) {
	one := &blob.Decoder{Rest: d.Bytes(d.Uvarint())}
	if d.Err != nil {
		return
	}
	if r.value(one, alike); one.Err != nil || len(one.Rest) > 0 && r.took {
		d.Fail()
	}
}

// value reads a value and its history entries. It skips a value without a series: the series' birth
// was rejected, or the series lived only between the parts of a checkpoint.
func (r *restorer) value(d *blob.Decoder, alike bool) {
	place, state := readPlace(d), d.Uint32()
	if !alike {
		r.mark = readMark(d)
	}
	r.step()
	r.b.history.Lock()
	defer r.b.history.Unlock()
	if r.takesLocked(d, place, state); r.took && d.Err == nil {
		kind.Of(r.b.page.kinds[place]).Restore(&r.Restorer, d, r.b.handle(place), r.mark.stamp)
		r.tookLocked(d, place)
	}
}

// takesLocked sets took if a restored series owns the value, and gives that series the value's
// mark.
func (r *restorer) takesLocked(d *blob.Decoder, place, state uint32) {
	if r.took = d.Err == nil && state&kind.Live != 0 && r.stateOf(place) == state; !r.took {
		return
	}
	if r.Ahead(r.mark.stamp) {
		d.Fail()
		return
	}
	if r.live != nil && !r.renewsLocked(place) {
		r.took = false
		return
	}
	c := &r.b.page.cells[place]
	seen, old := r.now.RestoredStamp(r.mark.seen)
	if c.Seen.Store(seen); old {
		r.b.unsaved.Mark(place) // the next flush saves the converted stamp
	}
	r.b.page.ttls[place].Store(r.mark.ttl)
}

// tookLocked ends a value that takesLocked accepted.
func (r *restorer) tookLocked(d *blob.Decoder, place uint32) {
	if r.live != nil {
		r.acceptLocked(d, place)
	}
}

func readMark(d *blob.Decoder) mark { return mark{d.Uint32(), d.Uint32(), d.Uint32()} }
