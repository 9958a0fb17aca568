package aggregate

import (
	"cmp"
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
	After     Place  // of the last item of the page before; zero: the first page
	Most      int    // items, at least 1
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
		if one := r.metric(places[i]); one.Series > 0 {
			list = append(list, one)
		}
		last = places[i]
	}
	return list, last, more
}

// Pushed returns those of some names that metrics have, in any namespace at any origin.
func (m *Merged) Pushed(names map[string]bool) map[string]bool {
	found := map[string]bool{}
	for _, s := range m.sources() {
		s.table.index.EachFamily(func(f *index.Family) {
			if names[f.Key.Name] {
				found[f.Key.Name] = true
			}
		})
	}
	return found
}

// Namespaces lists the namespaces that have metrics at any origin, sorted, after one of them.
func (m *Merged) Namespaces(after string, most int) (list []string, more bool) {
	first := smallest.Of(most, func(a, b *string) int { return strings.Compare(*a, *b) })
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
			one := Place(f.Key)
			if p.Namespace != "" && p.Namespace != one.Namespace || p.Name != "" && p.Name != one.Name {
				return
			}
			if p.After == (Place{}) || compareMetrics(&one, &p.After) > 0 {
				first.Add(one)
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
	for _, one := range m.summariesOf(sources, places) {
		if one.Series > 0 {
			list = append(list, one)
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
	for i, one := range of {
		all[i] = r.metric(one)
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
			one := Place{Resource: f.Key.Resource, Namespace: f.Key.Namespace}
			if one.Resource == "" || p.Namespace != "" && p.Namespace != one.Namespace {
				return
			}
			// No object of the family is smaller than one without a name, or larger than any name.
			rest := cmp.Or(strings.Compare(one.Namespace, p.After.Namespace), strings.Compare(one.Resource, p.After.Resource))
			if rest < 0 || !first.Takes(one) {
				return
			}
			f.EachNameLocked(func(name string) {
				if one.Name = name; (rest > 0 || name > p.After.Name) && (p.Name == "" || p.Name == name) {
					first.Add(one)
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
