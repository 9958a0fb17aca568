package aggregate

import "github.com/sluice-metrics/sluice/metric"

// AppendBirths appends the labels and the birth of each live series of a metric of one object. The
// date is the receiving time of the birth, counted from the date at which the lifetime clock and
// the receiving time of this process would both have been zero. So it is a pure function of what
// the table saves and publishes: the clocks and the tick of the birth.
func (t *Table) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	now := t.Clock.Now()
	zero := now.Epoch.Add(now.Life - now.At).UnixNano()
	for _, one := range t.seriesOf(o, name) {
		for _, r := range one.Series {
			b, place := t.blocks.of(r.Number)
			b.history.Lock()
			if s := &b.series[place]; b.page.cells[place].State.Load() == r.State {
				dst = append(dst, metric.Birth{Labels: s.labels(), At: zero + int64(s.born)*int64(t.Clock.Tick)})
			}
			b.history.Unlock()
		}
	}
	return dst
}
