package labelselector

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
)

// conditions are the requirements of a selector by key, in a form in which many label sets are compared with them: the set
// is walked twice at most, each of its keys and values is brought to selector form once at most, and nothing is allocated.
//
// The value that a key selects is that of the label with this key. A key that selector syntax cannot express is selected by
// its metric.SelectorValue, unless another key has that name; of several, the first one is.
type conditions struct {
	list  []condition    // sorted by key
	place map[string]int // in the list, by key
}

// condition has all requirements about a key.
type condition struct {
	key          string
	requirements []requirement
}

// requirement is a labels.Requirement.
type requirement struct {
	operator selection.Operator
	values   sets.Set[string]
	bound    int64 // of GreaterThan and LessThan
}

func compile(requirements labels.Requirements) *conditions {
	c := &conditions{place: map[string]int{}}
	requirements = slices.Clone(requirements)
	slices.SortFunc(requirements, func(a, b labels.Requirement) int { return strings.Compare(a.Key(), b.Key()) })
	for i := range requirements {
		r := &requirements[i]
		if last := len(c.list) - 1; last < 0 || c.list[last].key != r.Key() {
			c.place[r.Key()] = len(c.list)
			c.list = append(c.list, condition{key: r.Key()})
		}
		of := &c.list[len(c.list)-1]
		of.requirements = append(of.requirements, compileOne(r))
	}
	return c
}

func compileOne(r *labels.Requirement) requirement {
	one := requirement{operator: r.Operator(), values: sets.Set[string](r.Values())}
	if one.compares() {
		bound, _ := one.values.PopAny()
		one.bound, _ = strconv.ParseInt(bound, 10, 64) // the parser has taken no other
	}
	return one
}

// matches reports whether a label set meets all conditions.
func (c *conditions) matches(set metric.Labels) bool {
	var room [maxRequirements]bool
	met := room[:]
	if len(c.list) > len(room) { // of a selector that Parse has not seen
		met = make([]bool, len(c.list))
	}
	next, left := 0, len(c.list)
	for key, value := range set.All() { // which is sorted, too
		for next < len(c.list) && c.list[next].key < key {
			next++
		}
		if next == len(c.list) {
			break
		}
		if c.list[next].key == key {
			if !c.list[next].metBy(value) {
				return false
			}
			met[next] = true
			left--
		}
	}
	return left == 0 || c.matchesOthers(set, met)
}

// matchesOthers reports whether a label set meets the conditions whose key none of its labels has.
func (c *conditions) matchesOthers(set metric.Labels, met []bool) bool {
	var room [metric.MaxSelectorValue]byte
	for key, value := range set.All() {
		i, named := c.place[string(metric.AppendSelectorValue(room[:0], key))]
		if !named || met[i] {
			continue
		}
		if met[i] = c.list[i].metBy(value); !met[i] {
			return false
		}
	}
	for i := range c.list {
		if !met[i] && !c.list[i].metByNone() {
			return false
		}
	}
	return true
}

// metBy reports whether a value meets all requirements.
func (c *condition) metBy(value string) bool {
	var room [metric.MaxSelectorValue]byte
	form := metric.AppendSelectorValue(room[:0], value)
	number, isNumber := int64(0), false
	if slices.ContainsFunc(c.requirements, requirement.compares) {
		parsed, err := strconv.ParseInt(value, 10, 64) // unchanged: its form has no sign
		number, isNumber = parsed, err == nil
	}
	for i := range c.requirements {
		r := &c.requirements[i]
		if r.compares() && !(isNumber && r.metByNumber(number)) || !r.compares() && !r.metByForm(form) {
			return false
		}
	}
	return true
}

// metByNone reports whether the absence of the key meets all requirements.
func (c *condition) metByNone() bool {
	return !slices.ContainsFunc(c.requirements, func(r requirement) bool {
		switch r.operator {
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
			return false
		}
		return true
	})
}

// compares reports whether the requirement compares numbers.
func (r requirement) compares() bool {
	return r.operator == selection.GreaterThan || r.operator == selection.LessThan
}

func (r *requirement) metByNumber(number int64) bool {
	if r.operator == selection.GreaterThan {
		return number > r.bound
	}
	return number < r.bound
}

// metByForm reports whether a value in selector form meets the requirement. A legal value is its own form, and selectors
// contain only legal values, so the form changes no exact match.
func (r *requirement) metByForm(form []byte) bool {
	_, listed := r.values[string(form)]
	switch r.operator {
	case selection.In, selection.Equals, selection.DoubleEquals:
		return listed
	case selection.NotIn, selection.NotEquals:
		return !listed
	}
	return r.operator == selection.Exists
}
