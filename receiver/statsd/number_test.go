package statsd

import (
	"math"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text     string
		whole    int64
		fraction float64
		reason   metric.Reason
	}{
		{"0", 0, 0, 0},
		{"-0", 0, 0, 0},
		{"007", 7, 0, 0},
		{"+5", 5, 0, 0},
		{"9007199254740993", 1<<53 + 1, 0, 0}, // no float64
		{"-9007199254740993", -(1<<53 + 1), 0, 0},
		{"999999999999999999", 999999999999999999, 0, 0},
		{"9223372036854775807", math.MaxInt64, 0, 0},
		{"-9223372036854775808", math.MinInt64, 0, 0},
		{"0000000000000000000000000009223372036854775807", math.MaxInt64, 0, 0},
		{"9223372036854775808", 0, 1 << 63, 0},
		{"-9223372036854775809", 0, -(1 << 63), 0},
		{"99999999999999999999999", 0, 1e23, 0},
		{"18446744073709551616", 0, 1 << 64, 0},
		{"0.4", 0, 0.4, 0},
		{".5", 0, 0.5, 0},
		{"5.", 5, 0, 0},
		{"-.5", 0, -0.5, 0},
		{"-1.25", -1, -0.25, 0},
		{"9007199254740993.25", 1<<53 + 1, 0.25, 0},
		{"3.141592653589793238462643", 3, 0.141592653589793238462643, 0},
		{"0.99999999999999999999", 1, 0, 0},
		{"-7.99999999999999999999", -8, 0, 0},
		{"9223372036854775807.99999999999999999999", 0, 1 << 63, 0},
		{"1e3", 1000, 0, 0},
		{"1E+3", 1000, 0, 0},
		{"25e-1", 2, 0.5, 0},
		{"9.223372036854775807e18", math.MaxInt64, 0, 0},
		{"-9223372036854775808000e-3", math.MinInt64, 0, 0},
		{"1.2345678901123456e10", 12345678901, 0.123456, 0},
		{"12345678901123456789e-9", 12345678901, 0.123456789, 0},
		{".5e1", 5, 0, 0},
		{"5.e1", 50, 0, 0},
		{"1e-9", 0, 1e-9, 0},
		{"1e300", 0, 1e300, 0},
		{"1e-400", 0, 0, 0},
		{"0e999999999999999999999", 0, 0, 0},
		{"1e309", 0, 0, metric.BadValue},
		{"1e9999999999999999999999", 0, 0, metric.BadValue},
		{"NaN", 0, 0, metric.BadValue},
		{"-nan", 0, 0, metric.BadValue},
		{"inf", 0, 0, metric.BadValue},
		{"+Inf", 0, 0, metric.BadValue},
		{"-Infinity", 0, 0, metric.BadValue},
		{"", 0, 0, metric.Malformed},
		{"+", 0, 0, metric.Malformed},
		{".", 0, 0, metric.Malformed},
		{"-.", 0, 0, metric.Malformed},
		{"--1", 0, 0, metric.Malformed},
		{"1e", 0, 0, metric.Malformed},
		{"1e+", 0, 0, metric.Malformed},
		{"e5", 0, 0, metric.Malformed},
		{"1.2.3", 0, 0, metric.Malformed},
		{"1,5", 0, 0, metric.Malformed},
		{"1 ", 0, 0, metric.Malformed},
		{" 1", 0, 0, metric.Malformed},
		{"0x1p4", 0, 0, metric.Malformed},
		{"0x10", 0, 0, metric.Malformed},
		{"1_000", 0, 0, metric.Malformed},
		{"abc", 0, 0, metric.Malformed},
		{"infinit", 0, 0, metric.Malformed},
	} {
		whole, fraction, reason := parseNumber([]byte(c.text))
		if whole != c.whole || fraction != c.fraction || reason != c.reason {
			t.Errorf("%q: %d, %v, %v; want %d, %v, %v", c.text, whole, fraction, reason, c.whole, c.fraction, c.reason)
		}
	}
}
