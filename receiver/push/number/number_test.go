package number

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestParseNumber(t *testing.T) {
	for _, c := range []struct {
		text     string
		whole    int64
		fraction float64
	}{
		{"0", 0, 0}, {"-0", 0, 0}, {"+5", 5, 0}, {"12", 12, 0}, {"0.5", 0, 0.5}, {"-0.5", 0, -0.5},
		{"-1.25", -1, -0.25}, {"1.0", 1, 0}, {"1e3", 1000, 0}, {"1E+3", 1000, 0}, {"1500e-3", 1, 0.5}, {"12.5e1", 125, 0},
		{"9223372036854775807", math.MaxInt64, 0},
		{"-9223372036854775808", math.MinInt64, 0},
		{"9223372036854775807.000", math.MaxInt64, 0},
		{"9007199254740993", 1<<53 + 1, 0},
		{"9007199254740993.5", 1<<53 + 1, 0.5},
		{"9.007199254740993e15", 1<<53 + 1, 0},
		{"9.223372036854775807e18", math.MaxInt64, 0},
		{"12345678901123456789e-9", 12345678901, 0.123456789},
		{"-12345678901.123456789", -12345678901, -0.123456789},
		{"9223372036854775808", 0, 1 << 63},
		{"-9223372036854775809", 0, -(1 << 63)},
		{"1e300", 0, 1e300},
		{"0e999999999999", 0, 0},
		{"1e-999999999999", 0, 0},
		{"0.99999999999999999999", 1, 0},
		{"7.99999999999999999999", 8, 0},
		{"1" + strings.Repeat("0", 300), 0, 1e300},
	} {
		n, f := Parse([]byte(c.text))
		if f.Reason != metric.Applied || n.Whole != c.whole || n.Fraction != c.fraction {
			t.Errorf("%s: %d and %v (%v %s), want %d and %v", c.text, n.Whole, n.Fraction, f.Reason, f.Message, c.whole, c.fraction)
		}
	}
}

func TestParseNumberRefuses(t *testing.T) {
	for _, c := range []struct {
		text   string
		reason metric.Reason
		offset int
	}{
		{"", metric.Malformed, 0}, {"-", metric.Malformed, 1}, {"+", metric.Malformed, 1}, {"--1", metric.Malformed, 1},
		{".5", metric.Malformed, 0}, {"5.", metric.Malformed, 2}, {"5.e1", metric.Malformed, 2}, {"1e", metric.Malformed, 2},
		{"1e+", metric.Malformed, 3}, {"0x10", metric.Malformed, 1}, {"010", metric.Malformed, 0}, {"-01", metric.Malformed, 1},
		{"1_0", metric.Malformed, 1}, {"1 ", metric.Malformed, 1}, {"1,5", metric.Malformed, 1}, {"١", metric.Malformed, 0},
		{"nan", metric.BadValue, 0}, {"NaN", metric.BadValue, 0}, {"-NaN", metric.BadValue, 0}, {"inf", metric.BadValue, 0},
		{"+Inf", metric.BadValue, 0}, {"-Infinity", metric.BadValue, 0}, {"1e309", metric.BadValue, 0}, {"-1e309", metric.BadValue, 0},
		{strings.Repeat("1", 1025), metric.TooLong, 1024},
	} {
		_, f := Parse([]byte(c.text))
		if f.Reason != c.reason || f.Offset != c.offset || f.Message == "" {
			t.Errorf("%q: %v at %d (%s), want %v at %d", c.text, f.Reason, f.Offset, f.Message, c.reason, c.offset)
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-1.5e3", "+9223372036854775807", "1e-5", "nan", "00", "9007199254740993.25", "1e19", "0.1", "-9223372036854775808e0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, fault := Parse([]byte(s))
		valid := json.Valid([]byte(strings.TrimPrefix(s, "+"))) && strings.Trim(s, "+-0123456789.eE") == "" && s != "" && !strings.HasPrefix(s, "+-")
		if fault.Reason == metric.Malformed && valid {
			t.Fatalf("%q was refused: %s", s, fault.Message)
		}
		if fault.Reason != metric.Applied {
			return
		}
		if !valid {
			t.Fatalf("%q was taken for %v", s, n)
		}
		if math.Abs(n.Fraction) >= 1 && n.Whole != 0 || n.Whole > 0 && n.Fraction < 0 || n.Whole < 0 && n.Fraction > 0 {
			t.Fatalf("%q: parts %d and %v", s, n.Whole, n.Fraction)
		}
		want, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(s, err)
		}
		if got := n.Float(); got != want && math.Nextafter(got, want) != want {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
		if len(s) > 40 || strings.ContainsAny(s, "eE") && len(s) > 25 {
			return
		}
		if exact, ok := new(big.Rat).SetString(s); ok && exact.IsInt() && exact.Num().IsInt64() && math.Abs(want) < 1<<62 {
			if n.Whole != exact.Num().Int64() || n.Fraction != 0 {
				t.Fatalf("%q: %d and %v, want %v", s, n.Whole, n.Fraction, exact)
			}
		}
	})
}
