// Package limit decides whether a new series may exist. It limits the metrics and series of each
// pod, and those of each namespace for external metrics and all other objects.
//
// The table asks it once for each new series (admit.go), and reports each removed one. The registry
// counts them in quotas: one per pod, one per namespace. A metric takes a slot of its quota. The
// limit-enforcement goroutine (enforce.go) has series removed from the table. The cluster view
// provides the limits (LimitRange) and the metrics that autoscalers name; standalone there is no
// registry. The package never sees a sample of a known series and never a value.
//
// Slots are given in order of arrival, with two exceptions. A metric that a HorizontalPodAutoscaler
// names evicts the newest metric that none names, so the pods of a Deployment never differ in the
// metric that scales them. And an unnamed metric that received no sample for an hour is evicted if
// another metric was rejected.
package limit
