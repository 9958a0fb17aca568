package number

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// maxNumberBytes is more than any float64 needs when printed exactly (about 770 digits).
const maxNumberBytes = 1024

// Number is a value in the two parts of a metric.Sample.
type Number struct {
	Whole    int64
	Fraction float64
}

// Negative reports whether the number is below 0.
func (n Number) Negative() bool { return n.Whole < 0 || n.Fraction < 0 }

// Float returns the nearest float64.
func (n Number) Float() float64 { return float64(n.Whole) + n.Fraction }

// Fault says what is wrong with a number, and at which byte. The zero Fault is none.
type Fault struct {
	Reason  metric.Reason
	Offset  int
	Message string // may hold one %q, for the number: formatted only if it is shown
}

// Quoted returns the part of the number that Message quotes, or nil.
func (f Fault) Quoted(b []byte) []byte {
	if strings.Contains(f.Message, "%q") {
		return b
	}
	return nil
}

// Words words the fault of the number b.
func (f Fault) Words(b []byte) string {
	if quoted := f.Quoted(b); quoted != nil {
		return fmt.Sprintf(f.Message, metric.Truncate(string(quoted), 256))
	}
	return f.Message
}

// decimal is the text of a number in its parts.
type decimal struct {
	negative bool
	digits   []byte // before the point
	fraction []byte // after it
	exponent int
}

// Parse reads a number in the grammar of JSON (RFC 8259, section 6), or with a leading "+". The
// whole part is exact over all of int64 in any notation; a larger number is the nearest float64.
func Parse(b []byte) (Number, Fault) {
	if len(b) > maxNumberBytes {
		return Number{}, Fault{metric.TooLong, maxNumberBytes, "a number may have 1024 bytes"}
	}
	if name, ok := NotFinite(b); ok {
		return Number{}, Fault{metric.BadValue, 0, name + " is not a value that can be held"}
	}
	d, fault := cutNumber(b)
	if fault.Reason != metric.Applied {
		return Number{}, fault
	}
	if whole, fraction, ok := metric.SplitDecimal(d.negative, d.digits, d.fraction, d.exponent); ok {
		return Number{whole, fraction}, Fault{}
	}
	f, err := strconv.ParseFloat(metric.Borrow(b), 64)
	if err != nil { // the grammar is valid, so the range is not
		return Number{}, Fault{metric.BadValue, 0, "the number is beyond what a float64 can hold"}
	}
	var s metric.Sample
	s.SetFloat(f)
	return Number{s.Whole, s.Fraction}, Fault{}
}

// NotFinite recognises the spellings of infinity and not-a-number that languages print.
func NotFinite(b []byte) (string, bool) {
	if len(b) < 3 || len(b) > len("-infinity") {
		return "", false
	}
	switch strings.ToLower(strings.TrimLeft(metric.Borrow(b), "+-")) {
	case "nan":
		return "NaN", true
	case "inf", "infinity":
		return "an infinite number", true
	}
	return "", false
}

const numberShape = "%q is not a number; must be like 12, -0.5 or 1e3"

func cutNumber(b []byte) (decimal, Fault) {
	var d decimal
	at := 0
	if at < len(b) && (b[at] == '-' || b[at] == '+') {
		d.negative = b[at] == '-'
		at++
	}
	d.digits = digits(b[at:])
	at += len(d.digits)
	switch {
	case len(d.digits) == 0:
		return d, malformedNumber(b, at)
	case len(d.digits) > 1 && d.digits[0] == '0':
		return d, Fault{metric.Malformed, at - len(d.digits), "a number has no leading zeros"}
	}
	if at < len(b) && b[at] == '.' {
		d.fraction = digits(b[at+1:])
		at += 1 + len(d.fraction)
		if len(d.fraction) == 0 {
			return d, malformedNumber(b, at)
		}
	}
	if at < len(b) && (b[at] == 'e' || b[at] == 'E') {
		n, ok := d.cutExponent(b[at+1:])
		at += 1 + n
		if !ok {
			return d, malformedNumber(b, at)
		}
	}
	if at < len(b) {
		return d, malformedNumber(b, at)
	}
	return d, Fault{}
}

func malformedNumber(b []byte, at int) Fault {
	switch {
	case len(b) == 0:
		return Fault{metric.Malformed, 0, "a number is missing"}
	case at >= len(b):
		return Fault{metric.Malformed, at, "the number ends too early"}
	}
	return Fault{metric.Malformed, at, numberShape}
}

func (d *decimal) cutExponent(b []byte) (length int, ok bool) {
	at, negative := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		at, negative = 1, b[0] == '-'
	}
	ds := digits(b[at:])
	for _, c := range ds {
		d.exponent = min(d.exponent*10+int(c-'0'), 1<<20)
	}
	if negative {
		d.exponent = -d.exponent
	}
	return at + len(ds), len(ds) > 0
}

func digits(b []byte) []byte {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return b[:n]
}
