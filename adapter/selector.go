package adapter

import (
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// maxLabelLength is the longest label value, and the longest name in a label key, in Kubernetes.
const maxLabelLength = 63

// matching converts a selector to a Query's MatchLabels: nil if it matches everything.
func matching(selector labels.Selector) func(metric.Labels) bool {
	if selector == nil || selector.Empty() {
		return nil
	}
	requirements, selectable := selector.Requirements()
	return func(set metric.Labels) bool {
		for i := range requirements {
			if !matches(&requirements[i], set) {
				return false
			}
		}
		return selectable
	}
}

func matches(r *labels.Requirement, set metric.Labels) bool {
	switch r.Operator() {
	case selection.GreaterThan, selection.LessThan:
		return r.Matches(exact{set})
	}
	return r.Matches(sanitized{set})
}

// exact presents a label set unchanged.
type exact struct{ metric.Labels }

// Has implements labels.Labels.
func (e exact) Has(key string) bool { _, ok := e.Lookup(key); return ok }

// Get implements labels.Labels.
func (e exact) Get(key string) string { v, _ := e.Lookup(key); return v }

// Lookup implements labels.Labels. A key that selector syntax cannot express is found by its
// sanitized form, unless another key has that name.
func (e exact) Lookup(key string) (string, bool) {
	if v, ok := e.Labels.Get(key); ok {
		return v, true
	}
	for k, v := range e.All() {
		if k != key && sanitize(k) == key {
			return v, true
		}
	}
	return "", false
}

// sanitized presents each value in a form that selector syntax can express. A legal value is its
// own sanitized form, and selectors contain only legal values, so sanitizing changes no exact
// match.
type sanitized struct{ metric.Labels }

// Has implements labels.Labels.
func (s sanitized) Has(key string) bool { return exact(s).Has(key) }

// Get implements labels.Labels.
func (s sanitized) Get(key string) string { v, _ := s.Lookup(key); return v }

// Lookup implements labels.Labels.
func (s sanitized) Lookup(key string) (string, bool) {
	v, ok := exact(s).Lookup(key)
	return sanitize(v), ok
}

// sanitize turns a value into a legal Kubernetes label value (see "Selectors" in the package
// documentation).
func sanitize(value string) string {
	if legalLabel(value) {
		return value
	}
	start := 0
	for start < len(value) && !alphanumeric(value[start]) {
		start++
	}
	out := []byte(value[start:min(len(value), start+maxLabelLength)])
	for i, c := range out {
		if !inLabel(c) {
			out[i] = '_'
		}
	}
	for len(out) > 0 && !alphanumeric(out[len(out)-1]) {
		out = out[:len(out)-1]
	}
	return string(out)
}

func legalLabel(value string) bool {
	if len(value) > maxLabelLength {
		return false
	}
	for i := range len(value) {
		if !inLabel(value[i]) {
			return false
		}
	}
	return value == "" || (alphanumeric(value[0]) && alphanumeric(value[len(value)-1]))
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func inLabel(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' || c == '.' }
