// Package wake sets the first replica of autoscalers' targets that stand at zero, at the push that makes
// a metric positive, where the autoscaler's controller would do so at its next sync (docs/adr/0061). An
// autoscaler asks for it by the annotation sluice.dev/wake.
//
// The cluster view provides the autoscalers and changes the targets, the table provides the values;
// cmd/sluice joins them. Lists and "sluice explain" show what the package does (Waker.Describe).
//
// It stands on no path of a sample, and nothing of it runs while no autoscaler with the annotation is at
// zero. It never sets another number of replicas than the first one, never scales a target that its
// autoscaler has not scaled to zero, and never wakes because it does not know a value.
package wake
