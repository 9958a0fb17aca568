// Package explain says why an autoscaler has the replicas that it has: what it asks for, what it is
// answered, which pods have no value, and the arithmetic of the HorizontalPodAutoscaler controller.
// For each common fault it has a sentence and the command that mends it
// (docs/adr/0056). It follows whatever gathers the facts, as "sluice explain" with its user's rights
// or the console, and precedes whatever prints the report.
//
// It never reads anything itself: the same facts always give the same report.
package explain
