// Package labelselector matches selectors against the label sets of metrics.
package labelselector

import (
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// MatchLabels compiles a selector of label sets as the APIs understand it. It returns nil for one
// that selects all.
func MatchLabels(text string) (func(metric.Labels) bool, error) {
	selector, err := Parse("selector", text)
	if err != nil {
		return nil, err
	}
	return Matching(selector), nil
}

// Bounds of a selector. Each label set is compared with each requirement while its series is locked. An autoscaler may
// hold a selector of a megabyte, which its controller asks with every 15 s.
const (
	maxBytes        = 16 << 10
	maxRequirements = 64
)

// Parse parses a selector. what names it in the error.
func Parse(what, text string) (labels.Selector, error) {
	if len(text) > maxBytes {
		return nil, metric.InvalidQueryf("%s %.200q has %d bytes; must have at most %d", what, text, len(text), maxBytes)
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, metric.InvalidQueryf("%s %.200q: %.400v", what, text, err)
	}
	if all, _ := selector.Requirements(); len(all) > maxRequirements {
		return nil, metric.InvalidQueryf("%s %.200q has %d requirements; must have at most %d", what, text, len(all), maxRequirements)
	}
	return selector, nil
}

// Matching converts a selector to a Query's MatchLabels: nil if it matches everything.
func Matching(selector labels.Selector) func(metric.Labels) bool {
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

// Lookup implements labels.Labels.
func (e exact) Lookup(key string) (string, bool) { return e.Selected(key) }

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
	return s.Selectable(key)
}
