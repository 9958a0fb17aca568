package otlp

import (
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

// checkLabels checks the labels against the limits.
func (r *Reader) checkLabels() bool {
	if n := len(r.labels); n > r.options.MaxLabels {
		return r.tooMany(n)
	}
	for _, l := range r.labels {
		switch {
		case l.Key == "":
			return r.fail(metric.Malformed, "an attribute has no key")
		case len(l.Key) > r.options.MaxLabelBytes:
			return r.fail(metric.TooLong, "an attribute's key has %d bytes; must have at most %d", len(l.Key), r.options.MaxLabelBytes)
		case len(l.Value) > r.options.MaxLabelBytes:
			return r.fail(metric.TooLong, "attribute %q has %d bytes; must have at most %d", truncate(l.Key), len(l.Value), r.options.MaxLabelBytes)
		case !utf8.ValidString(l.Key) || !utf8.ValidString(l.Value):
			return r.fail(metric.Malformed, "attribute %q is not UTF-8", truncate(l.Key))
		case metric.CheckLabel(l) != metric.Applied:
			return r.fail(metric.BadName, "attribute %q=%q has a control character; names, label keys and label values must not", truncate(l.Key), truncate(l.Value))
		}
	}
	return true
}

func (r *Reader) tooMany(n int) bool {
	return r.fail(metric.TooLong, "%d attributes; must be at most %d", n, r.options.MaxLabels)
}
