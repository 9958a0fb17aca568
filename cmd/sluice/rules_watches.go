package main

import (
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// answerWatches notice that answers may have changed. One goroutine uses them and each answerWatch.
type answerWatches struct {
	book   *rulebook
	series *aggregate.Watches
	of     *rule.Set // at the last look
	all    map[*answerWatch]struct{}
}

func newAnswerWatches(book *rulebook, merged *aggregate.Merged) *answerWatches {
	return &answerWatches{book: book, series: merged.NewWatches(), of: book.Set(), all: map[*answerWatch]struct{}{}}
}

// Look calls the function of each answer that may have changed since the last call. The functions must not
// use the answerWatches.
func (w *answerWatches) Look() {
	if now := w.book.Set(); now != w.of {
		w.of = now
		for one := range w.all {
			one.changed()
		}
	}
	w.series.Look()
}

// watch watches the answer to a query. The query is asked for before the first reading, and when the rules
// are others.
func (w *answerWatches) watch(query func() (metric.Query, error), changed func()) *answerWatch {
	one := &answerWatch{among: w, query: query, changed: changed}
	w.all[one] = struct{}{}
	return one
}

// answerWatch watches all pushed metrics that an answer is read from.
type answerWatch struct {
	among   *answerWatches
	query   func() (metric.Query, error)
	changed func()
	metrics []*aggregate.Watch
	of      *rule.Set // by which there are metrics
}

// Follow is called before each reading. It finds what is to be watched since the last one.
func (o *answerWatch) Follow() {
	if now := o.among.book.Set(); o.metrics == nil || now != o.of {
		o.forget()
		if query, err := o.query(); err == nil {
			o.metrics, o.of = o.among.book.watches(o.among.series, query, o.changed), now
		}
	}
	for _, one := range o.metrics {
		one.Follow()
	}
}

func (o *answerWatch) forget() {
	for _, one := range o.metrics {
		one.End()
	}
	o.metrics, o.of = nil, nil
}

// End ends the watch. A nil answerWatch has ended.
func (o *answerWatch) End() {
	if o != nil {
		o.forget()
		delete(o.among.all, o)
	}
}

// watches are the watches of a query: of the metric, of the operands if a rule computes it, and of
// the pods' metrics if they may be rolled up.
func (b *rulebook) watches(among *aggregate.Watches, q metric.Query, changed func()) (all []*aggregate.Watch) {
	for _, expression := range b.Set().Pushed(q) {
		of := q
		of.Expression = expression
		all = append(all, among.Watch(of, changed))
		if rollup.MayRollUp(&of) {
			of.Resource, of.Object = "pods", adapter.AllObjects
			all = append(all, among.Watch(of, changed))
		}
	}
	return all
}

// readsOf are the bare names of the pushed metrics that a name may be read from: its own, and those of
// a rule's operands.
func (b *rulebook) readsOf(namespace, name string) []string {
	if b == nil {
		return []string{name}
	}
	var all []string
	for _, one := range b.Set().Pushed(metric.Query{Namespace: namespace, Expression: metric.Expression{Name: name}}) {
		all = append(all, one.Name)
	}
	return all
}
