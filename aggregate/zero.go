package aggregate

import (
	"cmp"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Zero returns a point for a counter or set that received no sample in the window: value 0, at the
// current time, with the queried window or the default one. The caller sets the object.
func (t *Table) Zero(asked metric.Expression) metric.Point {
	return t.zeroAt(asked, t.Clock.Now())
}

func (t *Table) zeroAt(asked metric.Expression, now window.Moment) metric.Point {
	return metric.Point{Time: now.Date(), Window: cmp.Or(asked.Window, t.DefaultWindow())}
}
