package policy

import (
	"math"
	"slices"
	"strconv"

	"github.com/sluice-metrics/sluice/metric"
)

// values is the set of values that a label may have, as selectors spell them
// (metric.SelectorValue), and whether the label may be absent. It is finite or cofinite.
type values struct {
	absent   bool
	cofinite bool      // all but the listed
	listed   []string  // sorted, each once; a map would take three times as much
	numbers  *interval // if not nil, only values that are numbers in it
}

// anyValues is a label that nothing is required of.
func anyValues() values { return values{absent: true, cofinite: true} }

// and restricts the set by a requirement.
func (v *values) and(r Requirement) {
	switch r.Operator {
	case In:
		v.absent = false
		v.keep(r.Values)
	case NotIn:
		v.drop(r.Values)
	case Exists:
		v.absent = false
	case DoesNotExist:
		v.cofinite, v.listed = false, nil
	case GreaterThan, LessThan:
		v.absent = false
		v.compare(r)
	}
}

func (v *values) keep(list []string) {
	kept := slices.DeleteFunc(slices.Clone(list), func(value string) bool { return v.lists(value) == v.cofinite })
	v.cofinite, v.listed = false, sorted(kept)
}

func (v *values) drop(list []string) {
	if v.cofinite {
		v.listed = sorted(slices.Concat(v.listed, list))
		return
	}
	dropped := sorted(slices.Clone(list))
	v.listed = slices.DeleteFunc(v.listed, func(value string) bool {
		_, is := slices.BinarySearch(dropped, value)
		return is
	})
}

// sorted sorts a list in place, and leaves out what it has twice.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func (v *values) lists(value string) bool {
	_, is := slices.BinarySearch(v.listed, value)
	return is
}

// compare restricts the set to numbers. A bound that is no number selects nothing.
func (v *values) compare(r Requirement) {
	if v.numbers == nil {
		v.numbers = &interval{math.MinInt64, math.MaxInt64}
	}
	bound, err := strconv.ParseInt(first(r.Values), 10, 64)
	switch {
	case err != nil, r.Operator == GreaterThan && bound == math.MaxInt64, r.Operator == LessThan && bound == math.MinInt64:
		*v.numbers = interval{1, 0}
	case r.Operator == GreaterThan:
		v.numbers.low = max(v.numbers.low, bound+1)
	default:
		v.numbers.high = min(v.numbers.high, bound-1)
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// has reports whether the set has a value.
func (v *values) has(value string) bool {
	return v.lists(value) != v.cofinite && (v.numbers == nil || v.numbers.has(value))
}

// present reports whether the set has any value. There is no end of the spellings of a number.
func (v *values) present() bool {
	if v.cofinite {
		return v.numbers == nil || v.numbers.low <= v.numbers.high
	}
	return slices.ContainsFunc(v.listed, v.has)
}

func (v *values) empty() bool { return !v.absent && !v.present() }

// within reports whether the set is a subset of another one, which has no interval: a policy's.
func (v *values) within(other *values) bool {
	switch {
	case v.absent && !other.absent:
		return false
	case !v.present():
		return true
	case !v.cofinite:
		for _, value := range v.listed {
			if v.has(value) && !other.has(value) {
				return false
			}
		}
		return true
	case !other.cofinite:
		return false
	}
	return !slices.ContainsFunc(other.listed, v.has)
}

// interval bounds the numbers of GreaterThan and LessThan. Those compare a label's own value, while
// sets hold its spelling in a selector, which has lost a sign and whatever follows 63 bytes.
type interval struct{ low, high int64 }

// has reports whether a value that is spelled so may be in the interval.
func (i *interval) has(value string) bool {
	if i.low > i.high {
		return false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	long := len(value) >= metric.MaxSelectorValue
	if err != nil || n < 0 {
		return long && digits(value)
	}
	return long || i.low <= n && n <= i.high || i.low <= -n && -n <= i.high
}

func digits(value string) bool {
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return false
		}
	}
	return value != ""
}
