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

// spend records how long a read took. What a namespace spends within a look is no reason to rest.
func (s share) spend(namespace string, began time.Time) {
	now := time.Now()
	from := s.until[namespace]
	if from.Before(began) {
		from = began
	}
	s.until[namespace] = from.Add(partOfTime * now.Sub(began))
}
