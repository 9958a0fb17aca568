// Package labelselector matches selectors against the label sets of metrics.
package labelselector

import (
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
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
	if !selectable {
		return func(metric.Labels) bool { return false }
	}
	return compile(requirements).matches
}
