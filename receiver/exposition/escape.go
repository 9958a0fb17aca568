package exposition

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/sluice-metrics/sluice/metric"
)

// Escaping is how names with characters other than letters, digits, "_" and ":" are written:
// Prometheus before 3.0 can't read a page with such a name.
//
// Source: https://prometheus.io/docs/instrumenting/escaping_schemes/
type Escaping uint8

const (
	Underscores Escaping = iota // "_" replaces each other character
	AllowUTF8                   // names are unchanged
	Dots                        // "." becomes "_dot_", "_" becomes "__"
	Values                      // a prefix "U__", and each other character as its code point
)

var escapings = [...]struct {
	name   string
	scheme model.EscapingScheme
}{
	{model.EscapeUnderscores, model.UnderscoreEscaping}, {model.AllowUTF8, model.NoEscaping},
	{model.EscapeDots, model.DotsEscaping}, {model.EscapeValues, model.ValueEncodingEscaping},
}

func (e Escaping) String() string { return escapings[e].name }

// ParseEscaping parses the output of String.
func ParseEscaping(s string) (Escaping, bool) {
	for i := range escapings {
		if escapings[i].name == s {
			return Escaping(i), true
		}
	}
	return Underscores, false
}

// EscapeName escapes the name of a metric.
func EscapeName(name string, e Escaping) string {
	if e == AllowUTF8 || e == Underscores && isLegacy(name, letter|colon) {
		return name
	}
	return model.EscapeName(name, escapings[e].scheme)
}

// EscapeKey escapes the key of a label. It has no colon, which only a metric's name may have.
func EscapeKey(key string, e Escaping) string {
	if e == AllowUTF8 || e == Underscores && isLegacy(key, letter) {
		return key
	}
	return strings.ReplaceAll(model.EscapeName(key, escapings[e].scheme), ":", "_")
}

// Escape returns the family with escaped names, or the family itself if there is nothing to escape.
// If two labels of a metric get the same name, the first is kept.
func Escape(f *Family, e Escaping) *Family {
	if e == AllowUTF8 || e == Underscores && isPlain(f) {
		return f
	}
	escaped := *f
	escaped.Name = EscapeName(f.Name, e)
	escaped.Metrics = slices.Clone(f.Metrics)
	for i := range escaped.Metrics {
		m := &escaped.Metrics[i]
		m.Labels = escapeLabels(m.Labels, e)
	}
	return &escaped
}

func isPlain(f *Family) bool {
	for i := range f.Metrics {
		for _, l := range f.Metrics[i].Labels {
			if !isLegacy(l.Key, letter) {
				return false
			}
		}
	}
	return isLegacy(f.Name, letter|colon)
}

func escapeLabels(labels []metric.Label, e Escaping) []metric.Label {
	escaped := make([]metric.Label, 0, len(labels))
	for _, l := range labels {
		l.Key = EscapeKey(l.Key, e)
		if !slices.ContainsFunc(escaped, func(other metric.Label) bool { return other.Key == l.Key }) {
			escaped = append(escaped, l)
		}
	}
	return metric.SortLabels(escaped)
}
