package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// AppendBirths appends the labels and the birth of each live series of a metric of one object. The
// date is the receiving time of the birth, counted from the date at which the lifetime clock and
// the receiving time of this process would both have been zero. So it is a pure function of what
// the table saves and publishes: the clocks and the tick of the birth.
func (t *Table) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	now := t.Clock.Now()
	return t.appendBirths(dst, o, name, now.Epoch.Add(now.Life-now.At).UnixNano())
}

// appendBirths is AppendBirths. zero is the date of receiving time zero.
func (t *Table) appendBirths(dst []metric.Birth, o metric.Object, name string, zero int64) []metric.Birth {
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

// AppendBirths appends the labels and the birth of each live series of a metric of one object. The
// dates are those that the origin itself computes: without the correction of its clock, which each
// replica estimates for itself.
func (s *Shadow) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	return s.Table().appendBirths(dst, o, name, s.zero.Load())
}

// Idle returns the time since the last sample of a metric of an object, or 0 if there is no such
// metric.
func (s *Shadow) Idle(o metric.Object, name string) time.Duration { return s.Table().Idle(o, name) }

// UsedBytes is the memory that MaxBytes bounds.
func (t *Table) UsedBytes() int64 {
	return t.BodyBytes.Load() + t.logBytes.Load() + t.nameBytes.Load() + t.aliases.Used.Load()
}
