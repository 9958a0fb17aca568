package aggregate

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// PastSeconds is the length of a series' past.
const PastSeconds = 60

// PastSeries is SomeSeries with each series' values of the last minute, as far as the histories have them:
// those of gauges, and the rates of counters. What a timer or a set read earlier isn't kept.
func (m *Merged) PastSeries(place Place, limit int) []SeriesSummary {
	return m.someSeries(place, limit, true)
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
