package wake

import "time"

// partOfTime is the part of the time that the reads of a namespace's autoscalers may take, over time: one tenth.
const partOfTime = 10

// share divides the time of the goroutine that reads for all autoscalers. A namespace whose reads took more than its part
// is left out until that is over, and others are read meanwhile. It belongs to Run.
type share struct {
	until map[string]time.Time // by namespace
}

func newShare() share { return share{map[string]time.Time{}} }

// rests reports whether a namespace is left out.
func (s share) rests(namespace string, now time.Time) bool {
	until, had := s.until[namespace]
	if had && !now.Before(until) {
		delete(s.until, namespace)
	}
	return had && now.Before(until.Add(-lookEvery))
}

// leastCost is a cost at which no read is limited.
const leastCost = 50 * time.Microsecond

// spend records how long a read of an autoscaler took. A namespace rests only if its reads cost more than one look. The
// counted cost rises at most sixteenfold from read to read: one read may be slow because another process had the processor.
func (s share) spend(namespace string, began time.Time, cost *time.Duration) {
	*cost = min(time.Since(began), 16**cost+leastCost)
	from := s.until[namespace]
	if from.Before(began) {
		from = began
	}
	s.until[namespace] = from.Add(partOfTime * *cost)
}
