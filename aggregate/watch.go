package aggregate

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Watch notices samples of the series that a query selects. Its methods belong to the goroutine of its
// Watches.
type Watch struct {
	watches *Watches
	query   metric.Query
	keys    []index.Key // an external metric may be of the namespace, or of none
	changed func()
	behind  bool // series began since they were found
	series  int  // that were found
	// round counts how often the series were found; entries of an earlier round are stale.
	round   uint32
	entries int // in words, of this round
}

// mostWatched bounds the series of a Watch: more are not looked at, and a reader finds their samples
// when it reads again.
const mostWatched = 4096

// Watch watches the series that Objects or, without a resource, External would read. Look calls changed
// if one of them may have changed, begun or ended. It may report a change that is none.
func (w *Watches) Watch(q metric.Query, changed func()) *Watch {
	one := &Watch{watches: w, query: q, changed: changed, keys: []index.Key{{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}}}
	if q.Resource == "" {
		one.query.Object = ""
		if q.Namespace != "" {
			one.keys = append(one.keys, index.Key{Name: q.Expression.Name})
		}
	}
	for _, key := range one.keys {
		births := w.merged.own.index.Births(key)
		w.families = append(w.families, watchedFamily{births: births, seen: births.Load(), watch: one})
	}
	w.all[one] = struct{}{}
	one.find()
	return one
}

// Follow finds series that began since the last call. Without it, changes of theirs are not reported.
// The caller reads values after it, so none is missed.
func (o *Watch) Follow() {
	if o.behind {
		o.behind = false
		o.find()
	}
}

// End ends the watch.
func (o *Watch) End() {
	o.forget()
	o.watches.ended++
	o.keys = nil
	delete(o.watches.all, o)
}

// find finds the series.
func (o *Watch) find() {
	o.forget()
	t, buffer := o.watches.merged.own, index.BufferFor(0)
	defer buffer.Release()
	for _, key := range o.keys {
		for _, one := range t.index.Find(key, &o.query, t.index.ScopeOf(key, &o.query), buffer) {
			for _, ref := range one.Series {
				o.add(t, ref)
			}
		}
	}
}

// forget makes all entries stale.
func (o *Watch) forget() {
	o.round++
	o.watches.stale += o.entries
	o.entries, o.series = 0, 0
}

func (o *Watch) add(t *Table, ref lookup.Ref) {
	b, place := t.blocks.of(ref.Number)
	if o.series == mostWatched || b.page.cells[place].State.Load() != ref.State {
		return
	}
	o.series++
	o.watches.add(o, b, place, ref.State)
}

// watchedFamily is the count of births of one of a Watch's keys, with its last value.
type watchedFamily struct {
	births *atomic.Uint32
	seen   uint32
	watch  *Watch
}
