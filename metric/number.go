package metric

import (
	"math"
	"strconv"
)

// Number is a value on the way to a reader. A decimal with up to nine places, the precision of a
// Kubernetes Quantity, is exact; any other number is a float64. Equal numbers are equal structs,
// and the zero Number is 0.
type Number struct {
	whole   int64
	nano    int32 // billionths, of the sign of whole
	isFloat bool
	float   float64
}

// Nanos is the number of billionths in one.
const Nanos = 1_000_000_000

// coarse is the magnitude from which float64s lie further apart than billionths. Below it, a
// float64 may stand for a decimal or for a finer number. Above it, the shortest decimal form is all
// that a float64 expresses.
const coarse = 1 << 23

// Int is an exact integer.
func Int(v int64) Number { return Number{whole: v} }

// Decimal is whole units and billionths, exact. The billionths may exceed one unit and have the
// opposite sign. A sum beyond int64 becomes a float64.
func Decimal(whole, nanos int64) Number {
	sum, ok := addWhole(whole, nanos/Nanos)
	if !ok {
		return Float(float64(whole) + float64(nanos)/Nanos)
	}
	rest := nanos % Nanos
	switch {
	case sum > 0 && rest < 0:
		sum, rest = sum-1, rest+Nanos
	case sum < 0 && rest > 0:
		sum, rest = sum+1, rest-Nanos
	}
	return Number{whole: sum, nano: int32(rest)}
}

// Float is the number that a float64 stands for: the nearest decimal of up to nine places, or the
// float64 itself if that is more precise.
func Float(v float64) Number {
	switch {
	case !(math.Abs(v) < 1<<63):
		return Number{float: v, isFloat: true}
	case v == math.Trunc(v):
		return Int(int64(v))
	case math.Abs(v) >= coarse:
		return shortest(v)
	}
	if n := nearest(v); n.Float64() == v {
		return n
	}
	return Number{float: v, isFloat: true}
}

// Computed is the result of float64 arithmetic: a decimal that lies within the rounding error of
// such arithmetic, or else Float(v).
func Computed(v float64) Number {
	if math.Abs(v) < coarse {
		const off = 8 * 0x1p-53
		if n := nearest(v); math.Abs(n.Float64()-v) <= off*math.Abs(v) {
			return n
		}
	}
	return Float(v)
}

// nearest rounds to billionths. The magnitude is below coarse.
func nearest(v float64) Number {
	whole, fraction := math.Modf(v)
	return Decimal(int64(whole), int64(math.Round(fraction*Nanos)))
}

// shortest rounds the shortest decimal form of a fractional number to billionths.
func shortest(v float64) Number {
	var buffer [40]byte
	text := strconv.AppendFloat(buffer[:0], math.Abs(v), 'f', -1, 64)
	whole, at := int64(0), 0
	for ; text[at] != '.'; at++ {
		whole = whole*10 + int64(text[at]-'0')
	}
	nanos, unit := int64(0), int64(Nanos)
	for _, c := range text[at+1:] {
		if unit /= 10; unit == 0 {
			nanos += int64(c-'0') / 5 // the tenth place rounds
			break
		}
		nanos += int64(c-'0') * unit
	}
	if v < 0 {
		whole, nanos = -whole, -nanos
	}
	return Decimal(whole, nanos)
}

func addWhole(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (a >= 0) != (b >= 0) || (sum >= 0) == (a >= 0)
}

// Int64 returns the integer, and whether the number is one.
func (n Number) Int64() (int64, bool) { return n.whole, !n.isFloat && n.nano == 0 }

// Decimal returns whole units and billionths, both of one sign, and whether they are the exact
// number.
func (n Number) Decimal() (whole int64, nano int32, ok bool) { return n.whole, n.nano, !n.isFloat }

// Rounded returns whole units and billionths, both of one sign. It returns false for NaN and for
// numbers beyond int64.
func (n Number) Rounded() (whole int64, nano int32, ok bool) {
	if n.isFloat && math.Abs(n.float) < coarse {
		n = nearest(n.float)
	}
	return n.Decimal()
}

// Float64 returns the nearest float64.
func (n Number) Float64() float64 {
	switch {
	case n.isFloat:
		return n.float
	case n.nano == 0:
		return float64(n.whole)
	case n.whole < coarse && n.whole > -coarse: // a quotient of exact numbers is the nearest
		return float64(n.whole*Nanos+int64(n.nano)) / Nanos
	}
	return float64(n.whole) + float64(n.nano)/Nanos
}

// AsFloat returns the nearest float64, and whether Float turns it into the same number.
func (n Number) AsFloat() (v float64, same bool) {
	v = n.Float64()
	if n.nano == 0 && !n.isFloat {
		return v, math.Abs(v) < 1<<63 && int64(v) == n.whole
	}
	return v, n.isFloat || n.whole < coarse && n.whole > -coarse || Float(v) == n
}

// Plus adds. Decimals stay exact within int64.
func (n Number) Plus(m Number) Number {
	if !n.isFloat && !m.isFloat {
		if sum, ok := addWhole(n.whole, m.whole); ok {
			return Decimal(sum, int64(n.nano)+int64(m.nano))
		}
	}
	return Float(n.Float64() + m.Float64())
}

// Append appends the digits in the form that JSON and Kubernetes parse. NaN and infinities have no
// such form.
func (n Number) Append(dst []byte) []byte {
	if n.isFloat {
		return strconv.AppendFloat(dst, n.float, 'g', -1, 64)
	}
	if n.whole == 0 && n.nano < 0 {
		dst = append(dst, '-')
	}
	dst = strconv.AppendInt(dst, n.whole, 10)
	if n.nano == 0 {
		return dst
	}
	nano := max(n.nano, -n.nano)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(Nanos+nano), 10) // a 1, and nine places
	dst[at] = '.'
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// maxSplitPlaces is how many decimal places SplitDecimal reads. Up to 15, the digits and the power
// of ten are exact float64s, so their quotient is the nearest float64.
const maxSplitPlaces = 15

var powersOfTen = [maxSplitPlaces + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15}

// SplitDecimal splits a decimal number into the two parts of a Sample, without rounding the whole
// part to a float64. It takes the digits before and after the point, and a power of ten. It returns
// false if the whole part exceeds int64, or if there are more places than it reads and a float64 is
// as precise.
func SplitDecimal(negative bool, integer, fraction []byte, power int) (whole int64, rest float64, ok bool) {
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	point := len(integer) + power
	limit := uint64(1<<63 - 1)
	if negative {
		limit = 1 << 63
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
			if units, ok = addDigit(units, c, limit); !ok {
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
		if units, ok = addDigit(units, 0, limit); !ok {
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

func addDigit(units uint64, digit byte, limit uint64) (uint64, bool) {
	if units > (limit-uint64(digit))/10 {
		return 0, false
	}
	return units*10 + uint64(digit), true
}
