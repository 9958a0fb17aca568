// Package operations serves the port of Sluice's operators: /livez, /readyz with the reason if
// Sluice is not ready, and /metrics.
//
// Samples do not pass through it. It reads the state of the stages through Checks and a
// prometheus.Gatherer, and changes nothing. It never serves values of pushed metrics.
package operations
