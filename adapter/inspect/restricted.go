package inspect

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Readable says which values of external metrics one reader may have.
type Readable interface {
	// MayReadAll reports whether the reader may ask for all series of a metric, name[:stat][:window].
	MayReadAll(namespace, expression string) bool
	// MayHave reports whether the reader may have one series of a metric by its bare name. label returns
	// the value of a label as selectors spell it.
	MayHave(namespace, name string, label func(key string) (string, bool)) bool
	// Unrestricted reports whether the reader may have every series of a namespace.
	Unrestricted(namespace string) bool
}

// Restrict returns a source that leaves out the values that a reader may not have. Names and numbers of
// series stay. The values of autoscalers are those that their controller gets: it says them in their
// statuses, too.
func Restrict(source Source, to Readable) Source { return restricted{source, to} }

type restricted struct {
	Source
	to Readable
}

// Metrics implements Source.
func (r restricted) Metrics(q Query) Page[Metric] {
	page := r.Source.Metrics(q)
	HideValues(page.Items, r.to, r.Source.Series)
	return page
}

// HideValues drops the values of metrics that a reader may not have. A metric has a value if it has a
// single series, which the function series finds.
func HideValues(all []Metric, to Readable, series func(namespace, resource, name string, most int) []Series) {
	for i := range all {
		m := &all[i]
		if m.Value != "" && m.Resource == "" && !to.MayReadAll(m.Namespace, m.Name) &&
			len(readableSeries(to, m.Namespace, m.Name, series(m.Namespace, "", m.Name, 1))) == 0 {
			m.Value = ""
		}
	}
}

// Series implements Source.
func (r restricted) Series(namespace, resource, name string, most int) []Series {
	all := r.Source.Series(namespace, resource, name, most)
	if resource != "" {
		return all
	}
	return readableSeries(r.to, namespace, name, all)
}

func readableSeries(to Readable, namespace, name string, all []Series) []Series {
	return slices.DeleteFunc(all, func(one Series) bool {
		set := make([]metric.Label, 0, len(one.Labels))
		for key, value := range one.Labels {
			set = append(set, metric.Label{Key: key, Value: value})
		}
		return !to.MayHave(namespace, name, metric.NewLabels(set).Selectable)
	})
}

// Rules implements Source.
func (r restricted) Rules(q Query) Page[Rule] {
	page := r.Source.Rules(q)
	for i := range page.Items {
		if one := &page.Items[i]; one.Value != "" && !one.MayShowValue(r.to) {
			one.Value, one.Of, one.Time = "", Reference{}, time.Time{}
		}
	}
	return page
}

// MayShowValue reports whether a reader may have the last value of a rule, whichever series it was
// computed of. Of a rename the names of the metric are unknown.
func (r *Rule) MayShowValue(to Readable) bool {
	if r.Of.Resource != "" {
		return true
	}
	if r.Expression == "" {
		return to.Unrestricted(r.Of.Namespace)
	}
	return to.MayReadAll(r.Of.Namespace, r.Metric) && !slices.ContainsFunc(r.Operands, func(o RuleOperand) bool {
		return !to.MayReadAll(r.Of.Namespace, o.Metric)
	})
}
