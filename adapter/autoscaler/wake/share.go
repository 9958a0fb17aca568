package wake

import (
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// partOfTime is the part of the time that the reads of a namespace's autoscalers may take, over time: one tenth.
const partOfTime = 10

// share divides the time of the goroutine that reads for all autoscalers. A namespace whose reads took more than its part
// is left out until that is over, and others are read meanwhile. It belongs to Run.
type share struct {
	until map[string]time.Time // by namespace
	costs *fair.Costs[string]
}

func newShare() share { return share{map[string]time.Time{}, new(fair.Costs[string])} }

// rests reports whether a namespace is left out.
func (s share) rests(namespace string, now time.Time) bool {
	until, had := s.until[namespace]
	if had && !now.Before(until) {
		delete(s.until, namespace)
	}
	return had && now.Before(until.Add(-lookEvery))
}

// spend records that a read of an autoscaler began then, and ends now. A namespace rests only if its reads cost more than
// one look. A new autoscaler costs what those of its namespace do.
func (s share) spend(namespace string, began time.Time) {
	now := time.Now()
	cost := s.costs.Count(namespace, now.Sub(began), now)
	from := s.until[namespace]
	if from.Before(began) {
		from = began
	}
	s.until[namespace] = from.Add(partOfTime * cost)
}
