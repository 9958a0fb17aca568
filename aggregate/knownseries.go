package aggregate

import "github.com/sluice-metrics/sluice/metric"

// Remote write sends running totals and gauges with the same labels again and again. Their labels
// as on the wire are looked up as lines are (LookupLines), and the values are applied one by one.

// KnownKind returns the kind of the series of the i-th looked-up line, or false if the line was
// never seen.
func (w *Writer) KnownKind(i int) (metric.Kind, bool) {
	r := &w.known[i]
	return r.Kind(), r.Known
}

// ApplyKnownSample applies a sample to the series of the i-th looked-up line, which is known. The
// sample needs no name and no labels. False: nothing was applied, because the series was removed or
// the sample is to be rejected; Apply with the labels finds out.
func (w *Writer) ApplyKnownSample(i int, s *metric.Sample) bool {
	to := w.known[i].Ref
	if s.Op.PreAggregated() {
		refused, there := w.tryPreAggregated(to, s)
		return there && refused == metric.Applied
	}
	b, place := w.table.blocks.of(to.Number)
	if b.page.cells[place].State.Load() != to.State || w.dated(s) {
		return false
	}
	return w.updateNow(b, place, s) == metric.Applied
}
