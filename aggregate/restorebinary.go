package aggregate

import "math/bits"

// Up to the fourth format fractions were in units of 2^-32. They are read to the nearest billionth, notes and all, so what is
// counted in a window goes on across the upgrade.

// grid is how fractions are read.
type grid struct {
	past func(d *decoder, p *past, stamp uint32)
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
func (r *restorer) binaryPast(d *decoder, p *past, stamp uint32) {
	var binary past
	defer binary.forget(r.t.rings)
	if r.past(d, &binary, stamp); d.err != nil {
		return
	}
	r.newest(p, binary.stamp, decimalUnits(binary.rolled), binary.ring != 0)
	if binary.ring == 0 {
		return
	}
	for span := range r.spans {
		for age := r.t.rings.known(binary.ring, span); age > 0; age-- {
			if v, ok := r.t.rings.at(&binary, span, age-1); ok {
				r.unit(d, p, span, uint64(age-1), decimalUnits(v))
			}
		}
	}
}

func (d *decoder) binarySum() (s sum) {
	whole, fraction := d.varint(), d.uvarint()
	if fraction >= binaryUnits {
		d.fail()
		return sum{}
	}
	s.add(whole, decimalUnits(fraction))
	return s
}
