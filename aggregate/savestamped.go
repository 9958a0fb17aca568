package aggregate

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/metric"
)

// appendStamped appends the timestamp of a gauge's value where it has one, 0 where not; and the value where the newest note, a
// float64, does not say it.
func appendStamped(dst []byte, body *body) []byte {
	if body == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, body.stamped.head.Load()>>32)
	n, _ := body.stamped.number()
	whole, nano, exact := n.Decimal()
	if _, plain := n.AsFloat(); plain || !exact {
		return dst
	}
	return binary.AppendVarint(binary.AppendVarint(dst, whole), int64(nano))
}

// exactGauge reads the value of a gauge that no float64 says, where there is one.
func (r *restorer) exactGauge(d *blob.Decoder, place uint32) {
	if !d.More() {
		return
	}
	whole, nano := d.Varint(), d.Varint()
	body := r.b.body(place)
	if d.Err != nil || body == nil || nano <= -metric.Nanos || nano >= metric.Nanos {
		d.Fail()
		return
	}
	body.stamped.slots[0].store(metric.Decimal(whole, nano))
}
