package aggregate

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/internal/smallest"
	"github.com/sluice-metrics/sluice/metric"
)

// SeriesSummary is one series of a metric.
type SeriesSummary struct {
	Object metric.Object
	Labels metric.Labels
	Kind   metric.Kind
	// Value is that of the bare name. HasValue is false if there is none, such as the mean of no
	// samples.
	Value      metric.Number
	HasValue   bool
	LastSample time.Time // to a tick
	// Interval is the time between the newest changes; 0: there are too few, or they are irregular.
	Interval time.Duration
	// Past are the values of the last PastSeconds seconds (PastSeries); NaN: unknown.
	Past []float64
}

// SomeSeries returns at most limit series of a metric, those of the first objects in the order of
// their names. Of an object with many series it returns some.
func (m *Merged) SomeSeries(place Place, limit int) []SeriesSummary {
	return m.someSeries(place, metric.Expression{}, limit, false)
}

// SomeSeriesAs is SomeSeries with values of the stat and the window of an expression. If the kind or the table
// doesn't have them, there is none.
func (m *Merged) SomeSeriesAs(place Place, e metric.Expression, limit int) []SeriesSummary {
	return m.someSeries(place, e, limit, false)
}

func (m *Merged) someSeries(place Place, e metric.Expression, limit int, past bool) (list []SeriesSummary) {
	e.Name = place.Name
	q := metric.Query{Resource: place.Resource, Namespace: place.Namespace, Object: "*", Expression: e}
	key := index.Key(place)
	r := newMergedRead(m.sources())
	defer r.end()
	r.findSome(key, limit)
	for parts := r.next(); len(parts) > 0 && len(list) < limit; parts = r.next() {
		k := r.kindOf(parts)
		if parts = ofKind(parts, k); len(parts) == 0 || r.beginKind(m.own, &q, k) != nil {
			continue
		}
		list = r.appendSeries(list, r.fewSeries(parts, limit), limit, past)
	}
	return list
}

// Has reports whether an object has a metric at any origin, by its kind (metric.NoKind: it has
// not), and whether the metric has a live series with these labels, which are sorted.
func (m *Merged) Has(o *metric.Object, name string, labels []metric.Label) (kind metric.Kind, series bool) {
	key, packed := index.Key{Resource: o.Resource, Namespace: o.Namespace,
		Name: name}, string(metric.AppendLabels(nil, labels))
	same := metric.ObjectFilter{Match: func(object metric.Object) bool { return object.UID == o.UID }}
	buffer, sources := index.BufferFor(0), m.sources()
	defer buffer.Release()
	for i := range sources {
		s := &sources[i]
		for _, found := range s.table.index.FindObject(key, o.Name, same, buffer) {
			for _, ref := range found.Series {
				if have, live := s.labelsOf(ref, found.Entry); live {
					kind, series = found.Entry.Kind, series || have == packed
				}
			}
		}
	}
	return kind, series
}

// KindOf returns the kind of a metric of an object in this table, which rejects samples of other kinds;
// metric.NoKind: the object has no such metric. It takes no lock of histories, so writers may call it.
func (t *Table) KindOf(o *metric.Object, name string) metric.Kind {
	key := index.Key{Resource: o.Resource, Namespace: o.Namespace, Name: name}
	same := metric.ObjectFilter{Match: func(object metric.Object) bool { return object.UID == o.UID }}
	buffer := index.BufferFor(0)
	defer buffer.Release()
	found := t.index.FindObject(key, o.Name, same, buffer)
	if len(found) == 0 {
		return metric.NoKind
	}
	return found[0].Entry.Kind
}

// findSome finds the entries of the first objects, at most limit.
func (r *mergedRead) findSome(key index.Key, limit int) {
	first, buffer := smallest.Of(limit, func(a, b *string) int { return strings.Compare(*a, *b) }), index.BufferFor(0)
	for i := range r.sources {
		s := &r.sources[i]
		s.table.index.WalkEntries(key, buffer, func(some []index.Found) {
			for _, found := range some {
				if first.Takes(found.Entry.Name) && s.anyLive(found) {
					first.Add(found.Entry.Name)
				}
			}
		})
	}
	names, _ := first.Sorted()
	everyone := metric.ObjectFilter{Match: func(metric.Object) bool { return true }}
	for i := range r.sources {
		s := &r.sources[i]
		for _, name := range names {
			s.found = append(s.found, s.table.index.FindObject(key, name, everyone, buffer)...)
		}
	}
	buffer.Release()
}

func (s *source) anyLive(found index.Found) bool {
	return slices.ContainsFunc(found.Series, func(ref lookup.Ref) bool {
		_, live := s.lastSeen(ref, found.Entry.External())
		return live
	})
}

// beginKind starts the evaluation of the bare name of a kind.
func (r *mergedRead) beginKind(own *Table, q *metric.Query, k metric.Kind) error {
	if r.table != nil && r.Kind == k {
		return nil
	}
	if r.table != nil {
		r.End()
	}
	return r.evaluateKind(own, q, k, 1<<k)
}

// fewSeries drops most of the series of an object that has many: it keeps the first of one origin,
// and their twins.
func (r *mergedRead) fewSeries(parts []part, limit int) []part {
	if !slices.ContainsFunc(parts, func(p part) bool { return len(p.Series) > limit }) {
		return parts
	}
	chosen := map[string]bool{}
	few := make([]part, len(parts))
	for i, p := range parts {
		few[i] = part{p.source, index.Found{Entry: p.Entry}}
		for _, ref := range p.Series {
			labels, live := r.sources[p.source].labelsOf(ref, p.Entry)
			if live && i == 0 && len(chosen) < limit {
				chosen[labels] = true
			}
			if live && chosen[labels] {
				few[i].Series = append(few[i].Series, ref)
			}
			if len(parts) == 1 && len(chosen) == limit {
				break
			}
		}
	}
	return few
}

// labelsOf returns the packed labels of a series, or false if it is not live.
func (s *source) labelsOf(ref lookup.Ref, e *index.Entry) (string, bool) {
	if _, live := s.lastSeen(ref, e.External()); !live {
		return "", false
	}
	b, place := s.table.blocks.of(ref.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != ref.State {
		return "", false
	}
	return b.series[place].packed(), true
}

// appendSeries appends the series of an object with their values, up to limit.
func (r *mergedRead) appendSeries(list []SeriesSummary, parts []part, limit int, past bool) []SeriesSummary {
	r.gather(parts)
	for twins := r.nextTwins(); len(twins) > 0 && len(list) < limit; twins = r.nextTwins() {
		seriesSummary := SeriesSummary{Object: parts[0].Entry.Object(), Kind: r.Kind, LastSample: newestOf(twins)}
		r.beginMerged(r.Kind)
		r.addTwins(twins, parts[0].Entry)
		if r.Series == 0 {
			continue
		}
		r.use(r.own)
		p, ok := r.point()
		seriesSummary.Labels, seriesSummary.Value, seriesSummary.HasValue = r.shared, p.Value, ok
		seriesSummary.Interval = r.sources[twins[len(twins)-1].source].intervalOf(twins[len(twins)-1].Ref, r.Kind)
		if past {
			seriesSummary.Past = r.pastOf(twins)
		}
		list = append(list, seriesSummary)
	}
	return list
}

// intervalOf is the interval of the newest changes of a series; 0: unknown.
func (s *source) intervalOf(ref lookup.Ref, k metric.Kind) time.Duration {
	t := s.table
	b, place := t.blocks.of(ref.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != ref.State {
		return 0
	}
	ticks := window.Interval(&b.page.cells[place].History, kind.Of(k).Coding(), t.Logs, t.Clock)
	return time.Duration(ticks * float64(t.Clock.Tick))
}

func newestOf(twins []twin) time.Time {
	newest := twins[0].seen
	for _, t := range twins {
		newest = max(newest, t.seen)
	}
	return time.Unix(0, newest)
}

// PastSeconds is the length of a series' past.
const PastSeconds = 60

// PastSeries is SomeSeries with each series' values of the last minute, as far as the histories have them:
// those of gauges, and the rates of counters. What a timer or a set read earlier isn't kept.
func (m *Merged) PastSeries(place Place, limit int) []SeriesSummary {
	return m.someSeries(place, metric.Expression{}, limit, true)
}

// pastOf returns the values at the ends of the last seconds, the oldest first; NaN: unknown. Nil: of a kind
// without any.
func (r *mergedRead) pastOf(twins []twin) []float64 {
	past := make([]float64, PastSeconds)
	for i := range past {
		past[i] = math.NaN()
	}
	switch r.Kind {
	case metric.Gauge: // the origin that heard it last
		newest := twins[0]
		for _, t := range twins {
			if t.seen > newest.seen {
				newest = t
			}
		}
		r.sources[newest.source].addPast(newest, r.Kind, past)
	case metric.Counter: // the rates of all origins add up
		for _, t := range twins {
			r.sources[t.source].addPast(t, r.Kind, past)
		}
	default:
		return nil
	}
	return past
}

// addPast adds the values of a series to past.
func (s *source) addPast(of twin, k metric.Kind, past []float64) {
	t := s.table
	b, place := t.blocks.of(of.Number)
	b.history.Lock()
	defer b.history.Unlock()
	cell := &b.page.cells[place]
	if cell.State.Load() != of.State {
		return
	}
	if body := b.bodies.Of(place); body != nil && body.Fraction != nil && body.Fraction.History.Stamp != 0 {
		return // the history of the cell has the whole parts only
	}
	entries := cell.History.Read(t.Logs, kind.Of(k).Coding(), nil)
	if len(entries) == 0 {
		return
	}
	now := t.Clock.Now().At
	tickAt := func(age int) uint32 {
		return uint32(max(now-time.Duration(age)*time.Second, 0) / t.Clock.Tick)
	}
	born := b.series[place].born
	resumed := time.Duration(0) // the clock stands while no process runs, so what was before has another age
	if pauses := t.Clock.Pauses(); len(pauses) > 0 {
		resumed = pauses[len(pauses)-1].At
	}
	begin := max(tickAt(PastSeconds), born)
	before := t.Logs.Before(entries[0], born)
	for i := range past {
		at := tickAt(PastSeconds - 1 - i)
		if now-time.Duration(PastSeconds-1-i)*time.Second < resumed {
			continue
		}
		value, known := valueAt(entries, at)
		if k == metric.Gauge {
			if known {
				past[i] = math.Float64frombits(value)
			}
			continue
		}
		from, had := valueAt(entries, begin)
		if !had {
			from = before
		}
		span := time.Duration(at-begin) * t.Clock.Tick
		if at <= begin || !known || span < t.Spans[0].Window && begin != born {
			continue
		}
		rate := float64(value-from) / max(span, t.Spans[0].Window).Seconds()
		if past[i] += rate; math.IsNaN(past[i]) {
			past[i] = rate
		}
	}
}

// valueAt is the value at the end of a tick; false: it is older than the entries.
func valueAt(entries []window.Entry, tick uint32) (value uint64, known bool) {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Tick <= tick {
			return entries[i].Value, true
		}
	}
	return 0, false
}
