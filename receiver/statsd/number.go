package statsd

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluice-metrics/sluice/metric"
)

// maxExactDigits is the number of decimal digits that always fit an int64.
const maxExactDigits = 18

// decimal is a number in its parts: [sign] integer ["." fraction] ["e" exponent].
type decimal struct {
	negative bool
	integer  uint64 // the digits before the point
	tooLarge bool   // the integer part exceeds uint64
	digits   int    // digits of the integer part, without leading zeros
	fraction []byte // "." and the digits after it; empty: no point
	hasPower bool
	power    int // the exponent, limited to ±maxPower
}

const maxPower = 1 << 20

// parseNumber parses a decimal number into the two parts of a metric.Sample. The integer part is
// exact over all of int64, in any notation. NaN and infinities are BadValue; notations that only Go
// has (hexadecimal, underscores) are Malformed.
func parseNumber(text []byte) (whole int64, fraction float64, reason metric.Reason) {
	d, ok := cutNumber(text)
	switch {
	case !ok && isNotFinite(text):
		return 0, 0, metric.BadValue
	case !ok:
		return 0, 0, metric.Malformed
	}
	if d.hasPower {
		return parsePower(text, d)
	}
	whole, fits := d.whole()
	if !fits {
		return parseLarge(text, d)
	}
	fraction = parseFraction(d.fraction)
	if fraction == 1 { // ".99999999999999999999" rounds up
		return parseLarge(text, d)
	}
	if d.negative && fraction != 0 {
		fraction = -fraction
	}
	return whole, fraction, metric.Applied
}

// whole is the integer part, and whether an int64 holds it.
func (d decimal) whole() (int64, bool) {
	switch {
	case d.tooLarge:
		return 0, false
	case d.negative:
		return -int64(d.integer), d.integer <= 1<<63
	}
	return int64(d.integer), d.integer < 1<<63
}

// parsePower parses a number with an exponent.
func parsePower(text []byte, d decimal) (int64, float64, metric.Reason) {
	digits := bytes.TrimLeft(text, "+-")
	end := 0
	for isDigit(digits[end]) {
		end++
	}
	if whole, fraction, ok := metric.SplitDecimal(d.negative, digits[:end], d.fraction[min(1, len(d.fraction)):],
		d.power); ok {
		return whole, fraction, metric.Applied
	}
	return parseLarge(text, d)
}

// parseLarge parses a number as a float64: a number beyond int64, or one that a float64 holds as
// precisely.
func parseLarge(text []byte, d decimal) (int64, float64, metric.Reason) {
	if d.digits > 0 && d.digits+d.power > 310 { // strconv's range error would allocate
		return 0, 0, metric.BadValue
	}
	v, err := strconv.ParseFloat(metric.Borrow(text), 64)
	if err != nil {
		return 0, 0, metric.BadValue
	}
	var s metric.Sample
	s.SetFloat(v)
	return s.Whole, s.Fraction, metric.Applied
}

var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseFraction parses "." and digits. Up to 15 digits, the quotient of two exact floats is the
// nearest.
func parseFraction(text []byte) float64 {
	if len(text) <= 1 {
		return 0
	}
	digits := text[1:]
	if len(digits) < len(powersOfTen) {
		n := int64(0)
		for _, c := range digits {
			n = n*10 + int64(c-'0')
		}
		return float64(n) / powersOfTen[len(digits)]
	}
	v, _ := strconv.ParseFloat(metric.Borrow(text), 64) // digits only: cannot fail
	return v
}

func cutNumber(text []byte) (d decimal, ok bool) {
	i := 0
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		d.negative = text[i] == '-'
		i++
	}
	start := i
	for ; i < len(text) && isDigit(text[i]); i++ {
		if d.integer > (math.MaxUint64-9)/10 {
			d.tooLarge = true
		}
		d.integer = d.integer*10 + uint64(text[i]-'0')
		if d.integer != 0 || d.digits > 0 {
			d.digits++
		}
	}
	count := i - start
	if i < len(text) && text[i] == '.' {
		point := i
		for i++; i < len(text) && isDigit(text[i]); i++ {
		}
		d.fraction = text[point:i]
		count += len(d.fraction) - 1
	}
	if count == 0 {
		return d, false
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		d.hasPower = true
		d.power, i = cutPower(text, i+1)
	}
	return d, i == len(text)
}

// cutPower parses an exponent and returns its end, or -1 if it has no digit.
func cutPower(text []byte, i int) (power, end int) {
	negative := false
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		negative = text[i] == '-'
		i++
	}
	start := i
	for ; i < len(text) && isDigit(text[i]); i++ {
		power = min(power*10+int(text[i]-'0'), maxPower)
	}
	if i == start {
		return 0, -1
	}
	if negative {
		power = -power
	}
	return power, i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

var notFinite = [][]byte{[]byte("nan"), []byte("inf"), []byte("infinity")}

func isNotFinite(text []byte) bool {
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	for _, name := range notFinite {
		if bytes.EqualFold(text, name) {
			return true
		}
	}
	return false
}
