package aggregate

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/internal/smallest"
	"github.com/sluice-metrics/sluice/metric"
)

// Lists are for people and tools that ask what there is (docs/adr/0054). A page costs a visit of
// all families, or of all names of a namespace's families, and of the series of the listed items.
// It copies the listed items only, and delays the creation of a series by no more than a read does.

// Part selects a page of a list.
type Part struct {
	Namespace string // of the items; empty: all
	Name      string // of the items; empty: all
	// Contains is a part of the items' names, of metrics; empty: any.
	Contains string
	After    Place // of the last item of the page before; zero: the first page
	Most     int   // items, at least 1
}

// Place identifies an item of a list: a metric or an object of a resource (empty: external).
type Place struct{ Resource, Namespace, Name string }

// MetricSummary is one name in one namespace, on objects of one resource.
type MetricSummary struct {
	Place
	Kind            metric.Kind // if objects have different kinds, that of most
	Objects, Series int
	// LastSample is the arrival of the newest sample, to a tick.
	LastSample time.Time
	// LabelKeys are the keys of labels of its first series, sorted; at most maxNames.
	LabelKeys []string
}

// ObjectSummary is an object that has series.
type ObjectSummary struct {
	Place
	Metrics, Series int
	LastSample      time.Time
	// MetricNames are some of its metrics, sorted; at most maxNames.
	MetricNames []string
}

// Metrics lists the metrics of all origins, sorted by namespace, name and resource. last is the
// place of the last one that was looked at, and more reports whether there are others. A metric
// whose series have all expired is left out.
func (m *Merged) Metrics(p Part) (list []MetricSummary, last Place, more bool) {
	sources := m.sources()
	places, more := firstMetrics(sources, &p).Sorted()
	r := newTally(sources)
	defer r.release()
	for i := range places {
		if metricSummary := r.metric(places[i]); metricSummary.Series > 0 {
			list = append(list, metricSummary)
		}
		last = places[i]
	}
	return list, last, more
}

// Pushed returns the first metric of each name that is asked for, as Metrics sorts them. A place that is asked for has a name
// and a namespace; empty: any. One look at the index answers for all. A metric whose series have all expired is left out.
func (m *Merged) Pushed(asked map[Place]bool) map[Place]Place {
	sources, first := m.sources(), map[Place]Place{}
	for i := range sources {
		sources[i].table.index.EachFamily(func(f *index.Family) {
			place := Place(f.Key)
			for _, as := range [2]Place{{Name: place.Name}, {Namespace: place.Namespace, Name: place.Name}} {
				if known, is := first[as]; asked[as] && (!is || compareMetrics(&place, &known) < 0) {
					first[as] = place
				}
			}
		})
	}
	r := newTally(sources)
	defer r.release()
	maps.DeleteFunc(first, func(_, place Place) bool { return r.metric(place).Series == 0 })
	return first
}

// Namespaces lists the namespaces that have metrics at any origin, sorted, after one of them.
func (m *Merged) Namespaces(after string, limit int) (list []string, more bool) {
	first := smallest.Of(limit, func(a, b *string) int { return strings.Compare(*a, *b) })
	for _, s := range m.sources() {
		s.table.index.EachFamily(func(f *index.Family) {
			if f.Key.Namespace > after {
				first.Add(f.Key.Namespace)
			}
		})
	}
	return first.Sorted()
}

func compareMetrics(a, b *Place) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Resource, b.Resource))
}

func firstMetrics(sources []source, p *Part) *smallest.Set[Place] {
	first := smallest.Of(p.Most, compareMetrics)
	for i := range sources {
		sources[i].table.index.EachFamily(func(f *index.Family) {
			place := Place(f.Key)
			if p.Namespace != "" && p.Namespace != place.Namespace || p.Name != "" && p.Name != place.Name ||
				!strings.Contains(place.Name, p.Contains) {
				return
			}
			if p.After == (Place{}) || compareMetrics(&place, &p.After) > 0 {
				first.Add(place)
			}
		})
	}
	return first
}

// ObjectsWithSeries lists the objects that have series at any origin, sorted by namespace, resource
// and name. last and more are as in Metrics.
func (m *Merged) ObjectsWithSeries(p Part) (list []ObjectSummary, last Place, more bool) {
	sources := m.sources()
	places, more := firstObjects(sources, &p).Sorted()
	if len(places) == 0 {
		return nil, last, more
	}
	for _, objectSummary := range m.summariesOf(sources, places) {
		if objectSummary.Series > 0 {
			list = append(list, objectSummary)
		}
	}
	return list, places[len(places)-1], more
}

// MetricSummaries returns the summaries of some metrics, in their order. A metric without series
// has none.
func (m *Merged) MetricSummaries(of []Place) []MetricSummary {
	r := newTally(m.sources())
	defer r.release()
	all := make([]MetricSummary, len(of))
	for i, place := range of {
		all[i] = r.metric(place)
	}
	return all
}

// ObjectSummaries returns the summaries of some objects, in their order. An object without series
// has none.
func (m *Merged) ObjectSummaries(of []Place) []ObjectSummary {
	return m.summariesOf(m.sources(), of)
}

func (m *Merged) summariesOf(sources []source, of []Place) []ObjectSummary {
	r := newTally(sources)
	defer r.release()
	return r.objects(of)
}

func compareObjects(a, b *Place) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Resource, b.Resource),
		strings.Compare(a.Name, b.Name))
}

func firstObjects(sources []source, p *Part) *smallest.Set[Place] {
	first := smallest.Of(p.Most, compareObjects)
	for i := range sources {
		sources[i].table.index.EachFamily(func(f *index.Family) {
			place := Place{Resource: f.Key.Resource, Namespace: f.Key.Namespace}
			if place.Resource == "" || p.Namespace != "" && p.Namespace != place.Namespace {
				return
			}
			// No object of the family is smaller than one without a name, or larger than any name.
			rest := cmp.Or(strings.Compare(place.Namespace, p.After.Namespace),
				strings.Compare(place.Resource, p.After.Resource))
			if rest < 0 || !first.Takes(place) {
				return
			}
			f.EachNameLocked(func(name string) {
				if place.Name = name; (rest > 0 || name > p.After.Name) && (p.Name == "" || p.Name == name) {
					first.Add(place)
				}
			})
		})
	}
	return first
}

// lastSeen returns the arrival of a series' newest sample, to a tick; false if the series is not
// live. It takes no lock.
func (s *source) lastSeen(r lookup.Ref, external bool) (window.LifeStamp, bool) {
	page, place := s.table.blocks.pageOf(r.Number)
	if page.cells[place].State.Load() != r.State || s.hidden.has(r) {
		return 0, false
	}
	if page.dirty.Has(place) {
		return s.now.Stamp(), true
	}
	seen := page.cells[place].Seen.Load()
	ttl, mortal := s.table.ttlOf(page.ttls[place].Load(), external)
	return seen, !mortal || s.now.Since(seen) <= ttl
}

// absent explains why a metric does not exist: it was never received, it was removed, or only other
// objects have it.
func absent(tables []*Table, q *metric.Query) error {
	family := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	t, r := latestRemoval(tables, family, q.Object)
	if r.why == "" && q.Resource == "" {
		family.Namespace = ""
		t, r = latestRemoval(tables, family, q.Object)
	}
	switch {
	case q.RollUp != nil && anyIn(tables, family, "*") != nil:
		return metric.NotFoundf("no series of %s: other pods have it, and none of these", describeAsked(q))
	case q.MatchObject != nil && q.Object == "*" && anyIn(tables, family, "*") != nil:
		return metric.NotFoundf("no series of %s: others have it, but none that still lives and that the selector picks",
			describeAsked(q))
	case r.why != "":
		return t.explainRemoval(q, r)
	case q.MatchObject != nil && anyIn(tables, family, q.Object) != nil:
		return metric.NotFoundf("no series of %s: the object is gone", describeAsked(q))
	}
	return metric.NotFoundf("no series of %s: none was ever received%s", describeAsked(q), mistyped(tables, q))
}

// latestRemoval returns the latest removal of a metric in any of the tables.
func latestRemoval(tables []*Table, family index.Key, object string) (in *Table, latest removal) {
	var at time.Time
	for _, t := range tables {
		r := t.removals.find(family, object)
		if date := t.Clock.Now().DateOf(r.seen); r.why != "" && (in == nil || date.After(at)) {
			in, latest, at = t, r, date
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

func (t *Table) explainRemoval(q *metric.Query, r removal) error {
	ago := (t.Clock.Now().Life - window.LifeAt(r.seen)).Round(time.Second)
	return metric.NotFoundf("no series of %s; last seen %s ago, %s", describeAsked(q), roughly(ago), r.why)
}

// nothing explains why a metric with series has no value.
func nothing(tables []*Table, q *metric.Query, r *evaluation, matched bool) error {
	switch {
	case matched && r.MissingReason != "":
		return metric.Unknownf("%s has no %s: %s", describeAsked(q), r.Stat, r.MissingReason)
	case matched:
		return metric.Idlef("%s has no %s: nothing was observed in the last %s",
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
