package answer

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// Watches notice that answers may have changed. One goroutine uses them and each Watch.
type Watches struct {
	rules  *rule.Current
	series *aggregate.Watches
	set    *rule.Set // at the last look
	all    map[*Watch]struct{}
	usage  usageNews
}

// usageNews notices that there is news of usage. Reports of many nodes come all the time, and which node an answer is of
// is not known, so it looks some times a second only.
type usageNews struct {
	of   Usage // nil: none is answered
	seen uint64
	at   time.Time
}

// lookAtUsageEvery is the time between two looks at news of usage, which each node has once a second at most.
const lookAtUsageEvery = 250 * time.Millisecond

func (u *usageNews) came(now time.Time) bool {
	if u.of == nil || now.Sub(u.at) < lookAtUsageEvery {
		return false
	}
	news := u.of.News()
	came := news != u.seen
	u.at, u.seen = now, news
	return came
}

// NewWatches makes Watches without a Watch. of may be nil: no usage is answered.
func NewWatches(merged *aggregate.Merged, rules *rule.Current, of Usage) *Watches {
	return &Watches{rules: rules, series: merged.NewWatches(), set: rules.Set(), all: map[*Watch]struct{}{},
		usage: usageNews{of: of}}
}

// Look calls the function of each Watch whose answer may have changed since the last call. The functions must
// not use the Watches.
func (w *Watches) Look() {
	if set := w.rules.Set(); set != w.set {
		w.follow(set)
	}
	if w.usage.came(time.Now()) {
		for watch := range w.all {
			if watch.ofUsage {
				watch.changed()
			}
		}
	}
	w.series.Look()
}

// follow calls the functions of the watches whose answers other rules may change: of a rule that somebody changes in one
// namespace, no other one has anything read.
func (w *Watches) follow(set *rule.Set) {
	differ := set.Differences(w.set)
	for watch := range w.all {
		switch {
		case watch.metrics == nil || differ.Concern(watch.namespace):
			watch.changed()
		case watch.set == w.set:
			watch.set = set
		}
	}
	w.set = set
}

// Watch watches the answer to a query. query is called before the first reading, and again after the
// rules have changed that hold for it.
func (w *Watches) Watch(query func() (metric.Query, error), changed func()) *Watch {
	watch := &Watch{among: w, query: query, changed: changed}
	w.all[watch] = struct{}{}
	return watch
}

// Watch watches all pushed metrics that an answer is read from.
type Watch struct {
	among   *Watches
	query   func() (metric.Query, error)
	changed func()
	metrics []*aggregate.Watch
	set     *rule.Set // by which there are metrics
	ofUsage bool      // the answer may have usage

	namespace string // whose rules hold for the query
}

// Follow is called before each reading. It finds the series to watch that are new since the last one.
func (w *Watch) Follow() {
	if set := w.among.rules.Set(); w.metrics == nil || set != w.set {
		w.forget()
		if query, err := w.query(); err == nil {
			w.metrics, w.set = w.among.pushed(set, query, w.changed), set
			w.ofUsage, w.namespace = w.among.mayBeUsage(set, query), rule.NamespaceOf(&query)
		}
	}
	for _, series := range w.metrics {
		series.Follow()
	}
}

func (w *Watch) forget() {
	for _, series := range w.metrics {
		series.End()
	}
	w.metrics, w.set = nil, nil
}

// End ends the watch. A nil Watch has ended.
func (w *Watch) End() {
	if w != nil {
		w.forget()
		delete(w.among.all, w)
	}
}

// mayBeUsage reports whether what a query reads may be usage: the metric, or the operands of a rule.
func (w *Watches) mayBeUsage(set *rule.Set, q metric.Query) bool {
	return w.usage.of != nil && slices.ContainsFunc(set.Pushed(q), func(e metric.Expression) bool {
		return w.usage.of.Has(q.Resource, e.Name)
	})
}

// pushed watches what a query reads: the metric, the operands if a rule computes it, and the pods' metrics
// if they may be rolled up.
func (w *Watches) pushed(set *rule.Set, q metric.Query, changed func()) (all []*aggregate.Watch) {
	for _, expression := range set.Pushed(q) {
		read := q
		read.Expression = expression
		all = append(all, w.series.Watch(read, changed))
		if rollup.MayRollUp(&read) {
			read.Resource, read.Object = "pods", metric.AllObjects
			all = append(all, w.series.Watch(read, changed))
		}
	}
	return all
}
