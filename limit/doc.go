// Package limit decides whether a new series may exist: how many metrics and series a pod may have, and a namespace for
// its external metrics and other objects. It keeps the books of who holds a slot.
//
// The table asks it once for each new series, on the way that makes one, and tells it when one is gone; it tells the
// table, later and from a goroutine of its own, what has to go. The cluster says the limits (LimitRange) and which metrics an
// autoscaler asks for; without a cluster there is no book. It never sees a sample of a known series and never a value.
//
// Who comes first holds the slot, with two exceptions. A metric that a HorizontalPodAutoscaler names takes its slot from
// the newest metric that none names: so the pods of one Deployment never differ in the metric that scales them. And a
// metric that nobody asks for and that got no sample for an hour yields to one that was refused.
package limit
