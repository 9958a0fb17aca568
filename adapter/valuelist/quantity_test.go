package valuelist

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		in    metric.Number
		want  string
		milli int64 // as the autoscaler reads it
	}{
		{metric.Int(0), "0", 0},
		{metric.Int(42), "42", 42_000},
		{metric.Int(-42), "-42", -42_000},
		{metric.Int(12000), "12k", 12_000_000},
		{metric.Int(1<<53 + 1), "9007199254740993", 9007199254740993_000},
		{metric.Int(9223372036854775), "9223372036854775", 9223372036854775_000},
		{metric.Int(-9223372036854775), "-9223372036854775", -9223372036854775_000},
		{metric.Float(9.2e15), "9200T", 9200000000000000_000},
		{metric.Float(0.1), "100m", 100},
		{metric.Float(1.1), "1100m", 1100},
		{metric.Float(-0.5), "-500m", -500},
		{metric.Float(1.0 / 3), "333333333n", 334}, // MilliValue rounds up
		{metric.Float(-1.0 / 3), "-333333333n", -334},
		{metric.Float(1e-9), "1n", 1}, // 1n reads as 1m
		{metric.Float(4e-10), "0", 0},
		{metric.Float(0.9999999999), "1", 1000},
		{metric.Float(9223372035.25), "9223372035250m", 9223372035250},
		{metric.Float(9223372036.123456), "9223372036123455u", 9223372036124}, // that float64's shortest form
		{metric.Float(-9223372036.123456), "-9223372036123455u", -9223372036124},
		{metric.Decimal(9223372036, 123_456_789), "9223372036123457u", 9223372036124}, // beyond int64 in nanos
		{metric.Decimal(-9223372036, -123_456_789), "-9223372036123457u", -9223372036124},
		{metric.Decimal(9223372036855, 123_456_789), "9223372036855123m", 9223372036855123}, // beyond int64 in micros
		{metric.Decimal(9223372036854775, 807_000_000), "9223372036854775807m", math.MaxInt64},
		{metric.Decimal(-9223372036854775, -806_999_999), "-9223372036854775807m", -math.MaxInt64},
		{metric.Float(1234567890.123456), "1234567890123456u", 1234567890124},
		{metric.Decimal(0, 1).Plus(metric.Decimal(0, 99_999_999)), "100m", 100},
		{metric.Float(4503599627370495.5), "4503599627370495500m", 4503599627370495500},
	} {
		got, err := quantityOf(c.in)
		if err != nil || got.String() != c.want || got.MilliValue() != c.milli {
			t.Errorf("%v: %s with milli value %d, %v; want %s, %d", c.in, got.String(), got.MilliValue(), err, c.want, c.milli)
		}
		again, err := resource.ParseQuantity(got.String())
		if err != nil || again.Cmp(got) != 0 {
			t.Errorf("%v: %s is read as %s, %v", c.in, got.String(), again.String(), err)
		}
	}
}

func TestQuantityRefuses(t *testing.T) {
	for _, c := range []struct {
		in   metric.Number
		want error
	}{
		{metric.Int(9223372036854776), ErrOverflow}, // its MilliValue would be negative
		{metric.Int(-9223372036854776), ErrOverflow},
		{metric.Decimal(9223372036854775, 807_000_001), ErrOverflow}, // its milli value is rounded up
		{metric.Decimal(-9223372036854775, -807_000_001), ErrOverflow},
		{metric.Float(1e16), ErrOverflow}, // its MilliValue would be 0
		{metric.Int(math.MaxInt64), ErrOverflow},
		{metric.Int(math.MinInt64), ErrOverflow},
		{metric.Float(1 << 63), ErrOverflow},
		{metric.Float(-(1 << 63)), ErrOverflow},
		{metric.Float(1e300), ErrOverflow},
		{metric.Float(math.NaN()), ErrNotANumber},
		{metric.Float(math.Inf(1)), ErrNotANumber},
		{metric.Float(math.Inf(-1)), ErrNotANumber},
	} {
		if got, err := quantityOf(c.in); !errors.Is(err, c.want) {
			t.Errorf("%v: %s, %v; want %v", c.in, got.String(), err, c.want)
		}
	}
}

func TestMilliSum(t *testing.T) {
	const most = 9223372036854775
	for _, c := range []struct {
		add  []int64
		fits bool
	}{
		{[]int64{most}, true},
		{[]int64{-most}, true},
		{[]int64{most - 1, 1}, true},
		{[]int64{most, 1}, false},
		{[]int64{-most, -1}, false},
		{[]int64{most, -most}, true},
		{[]int64{most, -1, 1}, false}, // the autoscaler may leave out the item in the middle
		{[]int64{most, most, most}, false},
	} {
		var sum milliSum
		var err error
		for _, n := range c.add {
			if err = sum.add(*resource.NewQuantity(n, resource.DecimalSI)); err != nil {
				break
			}
		}
		if (err == nil) != c.fits {
			t.Errorf("%v: %v, want fits=%v", c.add, err, c.fits)
		}
	}
}

// sent is the number that the sender of a float64 wrote. From 2^23 on float64s are further apart
// than billionths, and sent is the shortest decimal that reads back as the float64.
func sent(v float64) *big.Rat {
	if math.Abs(v) < 1<<23 {
		return new(big.Rat).SetFloat64(v)
	}
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return shortest
}

// An accepted number is right to the last nano or milli, and its milli value never wraps around.
func FuzzQuantity(f *testing.F) {
	for _, seed := range []float64{0, 0.1, 1.0 / 3, -1.5, 9.2e15, 9223372036854775, 9223372036.854, 1022222222222221.1, 1e-9, 1e16, 1e300, -55.523809523809526} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		q, err := quantityOf(metric.Float(v))
		if err != nil {
			if !math.IsNaN(v) && math.Abs(v) < 9223372036854775 {
				t.Fatalf("%g: %v", v, err)
			}
			return
		}
		tolerance := 0.5e-9
		switch {
		case math.Abs(v) > math.MaxInt64/1_000_000-1:
			tolerance = 0.5e-3
		case math.Abs(v) > math.MaxInt64/1_000_000_000-1:
			tolerance = 0.5e-6
		}
		milli := float64(q.MilliValue()) // before AsDec, which changes the form and the rounding of negative numbers
		decimal, _ := new(big.Rat).SetString(q.AsDec().String())
		off := new(big.Rat).Sub(decimal, sent(v))
		if off.Abs(off).Cmp(new(big.Rat).SetFloat64(tolerance*1.001)) > 0 {
			t.Fatalf("%g became %s", v, decimal.FloatString(12))
		}
		if math.Abs(milli-v*1000) > 1+math.Abs(v)*1e-12 {
			t.Fatalf("%g: milli value %.0f", v, milli)
		}
	})
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
