package kind

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// append appends the order of a gauge. Its sum of shifts is omitted after an assignment (O1).
func (o order) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, o.at), o.follows)
	if o.at != 0 && o.follows == 0 {
		return dst
	}
	whole, nano, exact := o.shifts.Decimal()
	if !exact {
		return blob.AppendFloat(binary.AppendVarint(append(dst, 0), metric.Nanos), o.shifts.Float64())
	}
	return binary.AppendVarint(binary.AppendVarint(dst, whole), int64(nano))
}

func readOrder(d *blob.Decoder) order {
	o := order{at: d.Uvarint(), follows: d.Uvarint()}
	if max(o.at, o.follows) > latestStamp {
		d.Fail()
	}
	if o.at != 0 && o.follows == 0 {
		return o
	}
	whole, nano := d.Varint(), d.Varint()
	switch {
	case nano == metric.Nanos:
		v := d.Float()
		if math.IsNaN(v) || math.IsInf(v, 0) {
			d.Fail()
		}
		o.shifts = metric.Float(v)
	case nano <= -metric.Nanos || nano > metric.Nanos:
		d.Fail()
	default:
		o.shifts = metric.Decimal(whole, nano)
	}
	return o
}

// latestStamp bounds saved stamps, so that sums with offsets between clocks cannot overflow.
const latestStamp = uint64(window.LongestLife / time.Millisecond)

// restoreOrder enters the order of a restored gauge.
func (r *Restorer) restoreOrder(h Series, o order) {
	if !r.Replicated {
		return
	}
	raise(&r.NewestStamp, o.at)
	if h.Cell.Value.Load() == GaugeMoved {
		h.body().stamped.orders[0].store(o)
		return
	}
	h.stamp().Store(o.at)
}

// StampLocked returns the stamp of a gauge without a body.
func StampLocked(h Series) uint64 { return h.orderLocked().at }

// RestoreStamp enters the stamp of a restored gauge without a body. The state may be newer than the
// delta with the stamp. Zero stands for the time at which the newest sample was recorded.
func (r *Restorer) RestoreStamp(h Series, at uint64) {
	if at == 0 {
		at = millisOf(window.LifeAt(h.Cell.Seen.Load()))
	}
	at = min(at, latestStamp)
	raise(h.stamp(), at)
	raise(&r.NewestStamp, at)
}
