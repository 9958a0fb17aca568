// Package wake acts on autoscalers at the push, where their controller would act at its next sync. An autoscaler
// asks for it by an annotation:
//
//   - sluice.dev/wake: a Waker sets the first replica of a target that stands at zero, at the push that makes a
//     metric positive (docs/adr/0061).
//   - sluice.dev/instant: a Nudger has the controller look at the push that changes the number of replicas, by a
//     change of the autoscaler's spec that means nothing (docs/adr/0085).
//
// The cluster view provides the autoscalers and changes the targets, the table provides the values;
// cmd/sluice joins them. Lists and "sluice explain" show what the package does (Waker.Describe).
//
// It stands on no path of a sample, and nothing of it runs while no autoscaler has an annotation. It never sets
// another number of replicas than the first one, never scales a target that its autoscaler has not scaled to
// zero, and neither wakes nor nudges because it does not know a value.
package wake
