package aggregate

import (
	"math/bits"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Up to the fourth format fractions were in units of 2^-32. They are read to the nearest billionth, notes and all, so what is
// counted in a window goes on across the upgrade.

// grid is how fractions are read.
type grid struct {
	past func(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32)
	sum  func(d *blob.Decoder) sum
}

const binaryUnits = 1 << 32

// decimalUnits is units of 2^-32 in billionths.
func decimalUnits(binary uint64) uint64 {
	high, low := bits.Mul64(binary, fractionUnits)
	low, carry := bits.Add64(low, binaryUnits/2, 0)
	return (high+carry)<<32 | low>>32
}

// binaryPast reads a fraction's notes in units of 2^-32: into a past of their own first.
func (r *restorer) binaryPast(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32) {
	var binary window.History
	defer binary.FreeLog(r.t.logs)
	if r.History(d, c, &binary, stamp); d.Err != nil {
		return
	}
	for _, one := range binary.Read(r.t.logs, c, nil) {
		if one.Tick >= p.Stamp {
			p.Record(r.t.logs, c, one.Tick, decimalUnits(one.Value))
		}
	}
}

func readBinarySum(d *blob.Decoder) (s sum) {
	whole, fraction := d.Varint(), d.Uvarint()
	if fraction >= binaryUnits {
		d.Fail()
		return sum{}
	}
	s.add(whole, decimalUnits(fraction))
	return s
}
