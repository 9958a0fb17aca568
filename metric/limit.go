package metric

// Limit bounds the metrics and series of one pod, or of everything else in one namespace.
type Limit struct{ Metrics, Series int }

// Unset in a Limit means that the namespace sets no value. 0 is a limit: no metric is admitted.
const Unset = -1

// Limits are the limits that a namespace sets: of each pod, and of everything that is not on a pod.
type Limits struct{ Pod, Namespace Limit }

// UnsetLimits sets nothing.
func UnsetLimits() Limits { return Limits{Limit{Unset, Unset}, Limit{Unset, Unset}} }

// OrDefault replaces unset limits.
func (l Limits) OrDefault(defaults Limits) Limits {
	return Limits{l.Pod.or(defaults.Pod), l.Namespace.or(defaults.Namespace)}
}

func (l Limit) or(defaults Limit) Limit {
	if l.Metrics == Unset {
		l.Metrics = defaults.Metrics
	}
	if l.Series == Unset {
		l.Series = defaults.Series
	}
	return l
}

// Birth is a series of a metric of one object, and the date of its creation. Dates of several
// origins can be compared if their machines' clocks agree.
type Birth struct {
	Labels Labels
	At     int64 // Unix nanoseconds
}
