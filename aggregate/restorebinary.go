package aggregate

import "math/bits"

// Up to the fourth format fractions were in units of 2^-32. They are read to the nearest billionth, notes and all, so what is
// counted in a window goes on across the upgrade.

// grid is how fractions are read.
type grid struct {
	past func(d *decoder, c coding, p *past, stamp uint32)
	sum  func(d *decoder) sum
}

const binaryUnits = 1 << 32

// decimalUnits is units of 2^-32 in billionths.
func decimalUnits(binary uint64) uint64 {
	high, low := bits.Mul64(binary, fractionUnits)
	low, carry := bits.Add64(low, binaryUnits/2, 0)
	return (high+carry)<<32 | low>>32
}

// binaryPast reads a fraction's notes in units of 2^-32: into a past of their own first.
func (r *restorer) binaryPast(d *decoder, c coding, p *past, stamp uint32) {
	var binary past
	defer binary.forget(r.t.notes)
	if r.past(d, c, &binary, stamp); d.err != nil {
		return
	}
	for _, one := range binary.read(r.t.notes, c, nil) {
		if one.tick >= p.stamp {
			p.note(r.t.notes, c, one.tick, decimalUnits(one.value))
		}
	}
}

func readBinarySum(d *decoder) (s sum) {
	whole, fraction := d.varint(), d.uvarint()
	if fraction >= binaryUnits {
		d.fail()
		return sum{}
	}
	s.add(whole, decimalUnits(fraction))
	return s
}
