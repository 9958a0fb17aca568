package main

import (
	"math"
	"strconv"
	"strings"
)

// number formats a value with separated thousands. If digits is negative, it prints as many decimal
// places as the value needs.
func number(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}

// significant formats a value with two significant digits, and larger values as whole numbers.
func significant(v float64) string {
	if v <= 0 || v >= 10 {
		return number(math.Round(v), 0)
	}
	return number(v, max(0, 1-int(math.Floor(math.Log10(v)))))
}

// nanoseconds formats a time in ns or µs.
func nanoseconds(v float64) string {
	if v >= 999.5 {
		return trimmed(significant(v/1000)) + " µs"
	}
	return trimmed(significant(v)) + " ns"
}

// milliseconds formats a time in µs, ms or s.
func milliseconds(v float64) string {
	switch {
	case v >= 999.5:
		return trimmed(significant(v/1000)) + " s"
	case v >= 0.9995:
		return trimmed(significant(v)) + " ms"
	}
	return trimmed(significant(v*1000)) + " µs"
}

// mebibytes formats an amount of memory.
func mebibytes(v float64) string {
	return trimmed(significant(v)) + " MiB"
}

// perSecond formats a rate: 20k, 1M.
func perSecond(v float64) string {
	switch {
	case v >= 999_500:
		return trimmed(significant(v/1e6)) + "M"
	case v >= 999.5:
		return trimmed(significant(v/1e3)) + "k"
	}
	return number(math.Round(v), 0)
}

// trimmed removes zeros after the decimal point.
func trimmed(text string) string {
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
