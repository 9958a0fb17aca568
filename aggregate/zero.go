package aggregate

import (
	"cmp"

	"github.com/sluice-metrics/sluice/metric"
)

// Zero is the point of a counter or a set that received nothing in the window, with the time and
// window that its others have. It names no object.
func (t *Table) Zero(asked metric.Expression) metric.Point {
	return metric.Point{Time: t.Clock.Now().Date(), Window: cmp.Or(asked.Window, t.defaultWindow())}
}
