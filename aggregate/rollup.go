package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// rollUp appends the value of all objects, whose series are read as label sets of one, and reports
// whether any of them is live and matches.
func (r *mergedRead) rollUp(points []metric.Point, to *metric.RollUp) (_ []metric.Point, matched bool) {
	k, oldest := r.Kind, time.Time{}
	r.beginMerged(k)
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		if r.kindOf(parts) != k {
			continue
		}
		before := r.Series
		r.newest = time.Time{}
		r.addParts(ofKind(parts, k))
		r.EndObject()
		if r.Series == before {
			continue
		}
		if oldest.IsZero() || r.newest.Before(oldest) {
			oldest = r.newest
		}
		if to.Each != nil {
			to.Each(parts[0].Entry.Object())
		}
	}
	r.newest = oldest
	r.use(r.own)
	if p, ok := r.point(); ok {
		p.Object = to.Object
		points = append(points, p)
	}
	return points, r.Series > 0
}
