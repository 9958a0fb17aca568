package kind

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// NoteStartLocked notes when a series began: at its birth, or when its client's running total did.
func (r *Reader) NoteStartLocked(h Series, created uint32) {
	if r.created == 0 || created < r.created {
		r.created = created
	}
	body := h.body()
	if r.Kind != metric.Counter || body == nil {
		return
	}
	r.fell = r.fell || body.Fraction.fell
	if body.running != nil {
		r.restarted = max(r.restarted, body.running.started)
	}
}

// Start returns the time since which the totals of the series read count, and whether one has fallen
// by an increment below 0. A later start is a reset: the totals were 0 then. WithStart must be set.
func (r *Reader) Start() (since time.Time, fell bool) {
	if r.restarted != 0 {
		return time.Unix(0, r.restarted), r.fell
	}
	return time.Unix(int64(r.created), 0), r.fell
}
