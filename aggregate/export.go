package aggregate

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

// Families returns the families of all origins that match, in no particular order. match must not
// call the table.
func (m *Merged) Families(match func(*metric.Family) bool) []metric.Family {
	all := m.own.index.AppendFamilies(nil, match)
	if m.alone() {
		return all
	}
	for _, p := range *m.peers.Load() {
		all = p.shadow.Table().index.AppendFamilies(all, match)
	}
	slices.SortFunc(all, compareFamilies)
	kept := all[:0]
	for _, family := range all {
		if last := len(kept) - 1; last >= 0 && compareFamilies(kept[last], family) == 0 {
			kept[last].Kinds |= family.Kinds
			continue
		}
		kept = append(kept, family)
	}
	return kept
}

func compareFamilies(a, b metric.Family) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
}

// An Export reads all series of many families, one after the other. One goroutine uses it.
type Export struct {
	merged *Merged
	// alive reports whether an object's values may be read; nil: all may.
	alive   func(metric.Object) bool
	sources []source
	at      time.Time                   // when the clocks of sources were read
	reads   [metric.Set + 1]*mergedRead // by kind; nil: not begun with these clocks
}

// clockAge is how long an export uses one reading of the clocks.
const clockAge = 200 * time.Millisecond

// NewExport starts an export.
func (m *Merged) NewExport(alive func(metric.Object) bool) *Export {
	return &Export{merged: m, alive: alive}
}

// exportedStat is the stat whose evaluation reads all that an export shows of a kind. A percentile
// reads the bins of timers.
func exportedStat(k metric.Kind) metric.Stat {
	switch k {
	case metric.Counter:
		return metric.Total
	case metric.Gauge:
		return metric.Last
	case metric.Set:
		return metric.Unique
	}
	return metric.P50
}

// exportedQuantiles are the quantiles of timers: those of statsd_exporter's default summaries.
var exportedQuantiles = []float64{0.5, 0.9, 0.99}

// Series calls yield for each live series of a family that has a kind, ordered by object, until
// yield returns false. The series is valid until yield returns. No lock is held during the call, so
// yield may wait: series that are removed meanwhile are left out.
func (e *Export) Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool) {
	r, err := e.begin(f, k)
	if err != nil {
		return // impossible: each kind has its exported stat
	}
	defer r.end()
	liveSeries := &metric.LiveSeries{}
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		if r.kindOf(parts) != k {
			continue
		}
		liveSeries.Object = parts[0].Entry.Object()
		if !r.exportParts(ofKind(parts, k), liveSeries, yield) {
			return
		}
	}
}

// begin finds the entries of a family.
func (e *Export) begin(f *metric.Family, k metric.Kind) (*mergedRead, error) {
	q := metric.Query{
		Resource: f.Resource, Namespace: f.Namespace, Object: "*", MatchObject: e.alive,
		Expression: metric.Expression{Name: f.Name, Stat: exportedStat(k)},
	}
	if now := time.Now(); now.Sub(e.at) > clockAge || now.Before(e.at) {
		e.sources, e.at = e.merged.sources(), now
		clear(e.reads[:])
	}
	r := e.reads[k]
	if r == nil {
		r = newMergedRead(e.sources)
		if err := r.evaluateKind(e.merged.own, &q, k, 1<<k); err != nil {
			return nil, err
		}
		r.WithBuckets, r.WithStart = e.merged.own.Histograms, k == metric.Counter || k == metric.Timer
		e.reads[k] = r
	}
	r.parts = r.parts[:0]
	r.find(&q, index.Key{Resource: f.Resource, Namespace: f.Namespace, Name: f.Name})
	return r, nil
}

// exportParts yields the series of an object.
func (r *mergedRead) exportParts(parts []part, liveSeries *metric.LiveSeries,
	yield func(*metric.LiveSeries) bool) (more bool) {
	r.beginMerged(r.Kind)
	more = true
	r.eachSeries(parts, func() bool {
		more = r.export(liveSeries, yield)
		r.beginMerged(r.Kind)
		return more
	})
	return more
}

// export yields the series that was read, if it lives and has a value.
func (r *mergedRead) export(liveSeries *metric.LiveSeries, yield func(*metric.LiveSeries) bool) bool {
	if r.Series == 0 {
		return true
	}
	liveSeries.Labels = r.shared
	liveSeries.Start, liveSeries.Fell = r.Start()
	if r.Kind == metric.Timer {
		r.Summary(exportedQuantiles, &liveSeries.Summary)
		if r.WithBuckets {
			r.Buckets(&liveSeries.Buckets)
		}
		return yield(liveSeries)
	}
	var ok bool
	if liveSeries.Value, ok = r.Value(); !ok {
		return true
	}
	return yield(liveSeries)
}
