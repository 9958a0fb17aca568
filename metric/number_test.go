package metric

import (
	"math"
	"math/big"
	"strconv"
	"testing"
)

func TestNumberText(t *testing.T) {
	for _, c := range []struct {
		number Number
		want   string
	}{
		{Number{}, "0"},
		{Int(math.MinInt64), "-9223372036854775808"},
		{Decimal(0, -1), "-0.000000001"},
		{Decimal(1, -1), "0.999999999"},
		{Decimal(-1, 2*Nanos+5*Nanos/10), "1.5"},
		{Decimal(math.MaxInt64, 999_999_999), "9223372036854775807.999999999"},
		{Decimal(math.MinInt64, -999_999_999), "-9223372036854775808.999999999"},
		{Decimal(math.MaxInt64, Nanos), "9.223372036854776e+18"}, // leaves int64
		{Float(1234567890.123456), "1234567890.123456"},
		{Float(-1234567890.123456), "-1234567890.123456"},
		{Float(1.0 / 3), "0.3333333333333333"},
		{Float(1e-12), "1e-12"},
		{Float(math.Nextafter(0.3, 1)), "0.30000000000000004"}, // as it came
		{Computed(math.Nextafter(0.3, 1)), "0.3"},
		{Computed(1.0 / 3), "0.3333333333333333"},
		{Computed(1e-12), "1e-12"},
		{Computed(-99.99999999999999), "-100"},
		{Float(0.1).Plus(Float(0.2)), "0.3"},
		{Float(8388608.5), "8388608.5"},
		{Float(8388607.999999999), "8388607.999999999"},
		{Float(1e18), "1000000000000000000"},
		{Float(1e300), "1e+300"},
		{Decimal(1, 999_999_999).Plus(Decimal(0, 1)), "2"},
		{Decimal(math.MaxInt64, 500_000_000).Plus(Decimal(0, 500_000_000)), "9.223372036854776e+18"},
		{Decimal(-5, -250_000_000).Plus(Decimal(5, 0)), "-0.25"},
	} {
		if got := string(c.number.Append(nil)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.number, got, c.want)
		}
	}
}

// A float64 parses back to itself, and the number of a decimal is that decimal.
func FuzzNumber(f *testing.F) {
	for _, v := range []float64{0, 0.1, 1.0 / 3, -12.3, 1e-9, 8388608.1, 1234567890.123456, 4503599627370495.5, 1e18, 1e300, math.Inf(1), math.NaN()} {
		f.Add(v, int64(v), int64(12345678))
	}
	f.Fuzz(func(t *testing.T, v float64, whole, nanos int64) {
		n := Float(v)
		text := string(n.Append(nil))
		if got, err := strconv.ParseFloat(text, 64); got != v && !math.IsNaN(v) || err != nil {
			// Above coarse, the tenth place is rounded.
			if math.Abs(v) < coarse || math.Abs(got-v) > 1e-9 {
				t.Fatalf("%v reads %s: %v", v, text, err)
			}
		}
		var s Sample
		if s.SetFloat(v); s.Number() != n && !math.IsNaN(v) {
			t.Fatalf("%v as a sample is %+v, want %+v", v, s.Number(), n)
		}
		d := Decimal(whole, nanos)
		exact := new(big.Rat).SetFrac64(nanos, Nanos)
		exact.Add(exact, new(big.Rat).SetInt64(whole))
		if got, _ := new(big.Rat).SetString(string(d.Append(nil))); !d.isFloat && got.Cmp(exact) != 0 {
			t.Fatalf("%d and %d billionths: %s", whole, nanos, d.Append(nil))
		}
		if back, same := d.AsFloat(); same != (Float(back) == d) {
			t.Fatalf("%+v: as a float64 the same: %v, %+v", d, same, Float(back))
		}
	})
}

func TestSplitDecimal(t *testing.T) {
	for _, c := range []struct {
		negative          bool
		integer, fraction string
		power             int
		whole             int64
		rest              float64
		ok                bool
	}{
		{false, "", "", 0, 0, 0, true},
		{false, "9223372036854775807", "9", 0, math.MaxInt64, 0.9, true},
		{true, "9223372036854775808", "5", 0, math.MinInt64, -0.5, true},
		{false, "9223372036854775808", "", 0, 0, 0, false},
		{false, "9", "223372036854775807", 18, math.MaxInt64, 0, true},
		{false, "12345678901", "123456789", 0, 12345678901, 0.123456789, true},
		{false, "12345678901123456789", "", -9, 12345678901, 0.123456789, true},
		{false, "1", "2345678901123456789", 10, 12345678901, 0.123456789, true},
		{false, "0", "1", 0, 0, 0.1, true},
		{false, "1", "", -1, 0, 0.1, true},
		{false, "1", "", -300, 0, 0, false}, // a float64 is finer
		{false, "0", "", 1 << 20, 0, 0, true},
		{false, "1", "", 1 << 20, 0, 0, false},
		{false, "0", "3333333333333333333", 0, 0, 0, false},
		{false, "8388608", "3333333333333333333", 0, 8388608, 0.333333333333333, true},
	} {
		whole, rest, ok := SplitDecimal(c.negative, []byte(c.integer), []byte(c.fraction), c.power)
		if whole != c.whole || rest != c.rest || ok != c.ok {
			t.Errorf("%+v: %d, %v, %v", c, whole, rest, ok)
		}
	}
}
