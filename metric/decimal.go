package metric

// maxSplitPlaces is how many decimal places SplitDecimal reads. Up to 15, the digits and the power
// of ten are exact float64s, so their quotient is the nearest float64.
const maxSplitPlaces = 15

var powersOfTen = [maxSplitPlaces + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// SplitDecimal splits a decimal number into the two parts of a Sample, without rounding the whole
// part to a float64. It takes the digits before and after the point, and a power of ten. It returns
// false if the whole part exceeds int64, or if there are more places than it reads and a float64 is
// as precise.
func SplitDecimal(negative bool, integer, fraction []byte, power int) (whole int64, rest float64, ok bool) {
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	point := len(integer) + power
	most := uint64(1<<63 - 1)
	if negative {
		most = 1 << 63
	}
	units, places, numerator, skipped := uint64(0), max(-point, 0), int64(0), false
	for i := range len(integer) + len(fraction) {
		c := byte(0)
		if i < len(integer) {
			c = integer[i] - '0'
		} else {
			c = fraction[i-len(integer)] - '0'
		}
		switch {
		case i < point:
			if units, ok = addDigit(units, c, most); !ok {
				return 0, 0, false
			}
		case places < maxSplitPlaces:
			numerator = numerator*10 + int64(c)
			places++
		default:
			skipped = skipped || c != 0
		}
	}
	for zeros := point - len(integer) - len(fraction); zeros > 0 && units > 0; zeros-- {
		if units, ok = addDigit(units, 0, most); !ok {
			return 0, 0, false
		}
	}
	if skipped && units < coarse {
		return 0, 0, false
	}
	if numerator != 0 {
		rest = float64(numerator) / powersOfTen[places]
	}
	if negative {
		return -int64(units), -rest, true
	}
	return int64(units), rest, true
}

func addDigit(units uint64, digit byte, most uint64) (uint64, bool) {
	if units > (most-uint64(digit))/10 {
		return 0, false
	}
	return units*10 + uint64(digit), true
}
