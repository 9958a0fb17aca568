package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
)

// sizedValue reads a value behind its length: with its mark, or alike the value before it.
func (r *restorer) sizedValue(d *blob.Decoder, alike bool) {
	one := &blob.Decoder{Rest: d.Bytes(d.Uvarint())}
	if d.Err != nil {
		return
	}
	if r.value(one, alike); one.Err != nil || len(one.Rest) > 0 && r.took {
		d.Fail()
	}
}

// value reads a value and its notes. A series that is not there was refused at its birth, or came
// and went between the parts of a checkpoint.
func (r *restorer) value(d *blob.Decoder, alike bool) {
	place, state := readPlace(d), d.Uint32()
	if !alike {
		r.mark = readMark(d)
	}
	if r.takes(d, place, state); !r.took || d.Err != nil {
		return
	}
	kind.Of(r.b.page.kinds[place]).Restore(&r.Restorer, d, r.b.handle(place), r.mark.stamp)
}

// takes looks whether a value has a series, and gives that the value's mark.
func (r *restorer) takes(d *blob.Decoder, place, state uint32) {
	c := &r.b.page.cells[place]
	if r.took = d.Err == nil && state&kind.Live != 0 && c.State.Load() == state; !r.took {
		return
	}
	if r.Ahead(r.mark.stamp) {
		d.Fail()
		return
	}
	seen, old := r.now.RestoredStamp(r.mark.seen)
	if c.Seen.Store(seen); old {
		r.b.unsaved.Mark(place) // so that the next flush writes it anew
	}
	r.b.page.ttls[place].Store(r.mark.ttl)
}

func readMark(d *blob.Decoder) mark { return mark{d.Uint32(), d.Uint32(), d.Uint32()} }
