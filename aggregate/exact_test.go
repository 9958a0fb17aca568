package aggregate

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// exactly is what readers are told, digit by digit.
func (f *fixture) exactly(asked string) string {
	return f.askAs(asked, func(n metric.Number) string { return string(n.Append(nil)) })
}

func (f *fixture) wantExactly(asked, want string) {
	f.t.Helper()
	if got := f.exactly(asked); got != want {
		f.t.Errorf("%s: %s, want %s", asked, got, want)
	}
}

// Sums of decimal fractions are exact to nine places, however they came and wherever they are added
// up.
func TestDecimalSumsAreExact(t *testing.T) {
	start(t, func(f *fixture) {
		for range 10 {
			f.push("c:0.1|c|#pod:a,ns:ns", "c:0.2|c|#pod:a,ns:ns,l:1", "n:-0.1|c|#pod:a,ns:ns", "d:+0.1|g|#pod:a,ns:ns", "t:0.1|ms|#pod:a,ns:ns",
				"big:1234567890.123456|c|#pod:a,ns:ns", "small:0.000000001|c|#pod:a,ns:ns")
		}
		f.push("g:0.1|g|#pod:a,ns:ns", "g:0.2|g|#pod:a,ns:ns,l:1", "g:0.000000001|g|#pod:a,ns:ns,l:2")
		f.wantExactly("c:total", "a=3")
		f.wantExactly("c:count", "a=3")
		f.wantExactly("c:rate:10s", "a=0.3")
		f.wantExactly("n:total", "a=-1")
		f.wantExactly("n:count", "a=-1")
		f.wantExactly("d", "a=1")
		f.wantExactly("t:sum", "a=1")
		f.wantExactly("t:mean", "a=0.1")
		f.wantExactly("g", "a=0.300000001")
		f.wantExactly("big:total", "a=12345678901.23456")
		f.wantExactly("small:total", "a=0.00000001")
		time.Sleep(time.Second)
		f.wantExactly("g:mean:10s", "a=0.300000001")
		f.wantExactly("g:max:10s", "a=0.300000001")
	})
}

// A gauge reads back as it came, over all of int64 and to nine decimal places, and finer where a
// float64 says it.
func TestGaugesReadBackAsTheyCame(t *testing.T) {
	for _, text := range []string{
		"0", "-1", "9007199254740993", "9223372036854775", "9223372036854775807", "-9223372036854775808", "9223372036854775806",
		"1234567890.123456", "-1234567890.123456", "123456789012345.123456789", "9223372036854775807.5", "8388608.000000001",
		"0.1", "0.123456789", "0.30000000000000004", "1e-12", "0.3333333333333333", "1152921504606847000", "8388607.999999999",
	} {
		t.Run(text, func(t *testing.T) {
			start(t, func(f *fixture) { readsBack(f, text) })
		})
	}
}

func readsBack(f *fixture, text string) {
	f.t.Helper()
	s := gaugeOf(text)
	disk := newSaved()
	for range 3 {
		f.apply(s)
		f.wantExactly("g", "a="+text)
		time.Sleep(time.Second)
		disk.flush(f.Table, never)
	}
	again := disk.restore(f.t)
	again.wantExactly("g", "a="+text)
	disk.flush(f.Table, each) // a checkpoint
	again = disk.restore(f.t)
	again.wantExactly("g", "a="+text)
	again.push("g:5|g|#pod:a,ns:ns") // another value after an exact one
	again.wantExactly("g", "a=5")
}

// gaugeOf is a gauge's sample with a number as parsers read it.
func gaugeOf(text string) *metric.Sample {
	s := sample("g:1|g|#pod:a,ns:ns")
	var ok bool
	if s.Whole, s.Fraction, ok = decimalParts(text); !ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(err)
		}
		s.SetFloat(v)
	}
	return s
}

// decimalParts reads a plain decimal number.
func decimalParts(text string) (whole int64, fraction float64, ok bool) {
	if strings.Contains(text, "e") {
		return 0, 0, false
	}
	before, after, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	return metric.SplitDecimal(strings.HasPrefix(text, "-"), []byte(before), []byte(after), 0)
}
