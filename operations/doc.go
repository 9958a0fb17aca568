// Package operations is the port for those who run Sluice: is it alive, is it ready and if not why, and
// its metrics.
//
// It stands beside the way of a sample, not in it: it reads what the stages say of themselves through
// Checks and a prometheus.Gatherer, and changes nothing. It never serves values of pushed metrics.
package operations
