package aggregate

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// absent explains why a metric does not exist: it was never received, it was removed, or only other
// objects have it.
func absent(tables []*Table, q *metric.Query) error {
	family := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	t, one := latestRemoval(tables, family, q.Object)
	if one.why == "" && q.Resource == "" {
		family.Namespace = ""
		t, one = latestRemoval(tables, family, q.Object)
	}
	switch {
	case q.RollUp != nil && anyIn(tables, family, "*") != nil:
		return metric.NotFoundf("no series of %s: other pods have it, and none of these", describeAsked(q))
	case q.MatchObject != nil && q.Object == "*" && anyIn(tables, family, "*") != nil:
		return metric.NotFoundf("no series of %s: others have it, but none that still lives and that the selector picks", describeAsked(q))
	case one.why != "":
		return t.explainRemoval(q, one)
	case q.MatchObject != nil && anyIn(tables, family, q.Object) != nil:
		return metric.NotFoundf("no series of %s: the object is gone", describeAsked(q))
	}
	return metric.NotFoundf("no series of %s: none was ever received%s", describeAsked(q), mistyped(tables, q))
}

// latestRemoval returns the latest removal of a metric in any of the tables.
func latestRemoval(tables []*Table, family index.Key, object string) (in *Table, latest removal) {
	var at time.Time
	for _, t := range tables {
		one := t.removals.find(family, object)
		if date := t.Clock.Now().DateOf(one.seen); one.why != "" && (in == nil || date.After(at)) {
			in, latest, at = t, one, date
		}
	}
	return in, latest
}

// anyIn is Index.Any over several tables.
func anyIn(tables []*Table, family index.Key, object string) *index.Entry {
	for _, t := range tables {
		if e := t.index.Any(family, object); e != nil {
			return e
		}
	}
	return nil
}

// mistyped returns a hint for a name with an unknown stat or window at its end: if the part before
// a colon is a metric, the hint lists its stats and windows. Otherwise it is empty.
func mistyped(tables []*Table, q *metric.Query) string {
	for head := q.Expression.Name; ; {
		i := strings.LastIndexByte(head, ':')
		if i < 0 {
			return ""
		}
		head = head[:i]
		for _, namespace := range []string{q.Namespace, ""} {
			if found := anyIn(tables, index.Key{Resource: q.Resource, Namespace: namespace, Name: head}, "*"); found != nil {
				kind := found.Kind
				return fmt.Sprintf("; %q is a %s: it has %s, in the windows %s, but no %q",
					head, kind, metric.StatNames(kind.Stats()), windowNames(tables[0].Windows()), q.Expression.Name[len(head)+1:])
			}
		}
	}
}

func (t *Table) explainRemoval(q *metric.Query, one removal) error {
	ago := (t.Clock.Now().Life - window.LifeAt(one.seen)).Round(time.Second)
	return metric.NotFoundf("no series of %s; last seen %s ago, %s", describeAsked(q), roughly(ago), one.why)
}

// nothing explains why a metric with series has no value.
func nothing(tables []*Table, q *metric.Query, r *evaluation, matched bool) error {
	switch {
	case matched && r.MissingReason != "":
		return metric.NotFoundf("%s has no %s: %s", describeAsked(q), r.Stat, r.MissingReason)
	case matched:
		return metric.NotFoundf("%s has no %s: nothing was observed in the last %s",
			describeAsked(q), r.Stat, metric.FormatWindow(r.View.Span.Window))
	case r.gone.why != "":
		return r.goneAt.explainRemoval(q, r.gone)
	case q.MatchLabels == nil:
		return absent(tables, q)
	}
	return metric.NotFoundf("no series of %s has labels that match the selector", describeAsked(q))
}

// describeAsked formats the metric and object of a query: `"x" for pods/web-1 in "shop"`.
func describeAsked(q *metric.Query) string {
	s := fmt.Sprintf("%q", q.Expression.Name)
	switch {
	case q.Resource == "":
		s += " among external metrics"
	case q.RollUp != nil && q.RollUp.Object.Resource != q.Resource:
		s += fmt.Sprintf(" for the %s of %s/%s", q.Resource, q.RollUp.Object.Resource, q.RollUp.Object.Name)
	case q.Object == "*":
		s += " for " + q.Resource
	default:
		s += fmt.Sprintf(" for %s/%s", q.Resource, q.Object)
	}
	if q.Namespace != "" {
		s += fmt.Sprintf(" in %q", q.Namespace)
	}
	return s
}

// roughly formats a duration in its largest unit only: 26h, 5m, 12s.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d >= time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
}

func windowNames(windows []time.Duration) string {
	names := make([]string, len(windows))
	for i, w := range windows {
		names[i] = metric.FormatWindow(w)
	}
	return strings.Join(names, ", ")
}
