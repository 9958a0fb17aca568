package metric

// Limit is how many metrics and series a pod, or a namespace for all else in it, may have.
type Limit struct{ Metrics, Series int }

// Unsaid stands in a Limit where nothing is said. 0 is a limit like any other: none may be.
const Unset = -1

// Limits are what a namespace says: of each of its pods, and of what is not on a pod.
type Limits struct{ Pod, Namespace Limit }

// NoLimits says nothing.
func UnsetLimits() Limits { return Limits{Limit{Unset, Unset}, Limit{Unset, Unset}} }

// Or fills in what is not said.
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
