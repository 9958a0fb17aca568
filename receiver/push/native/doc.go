// Package native serves the protocol of Sluice itself: a path for each metric, on which it is pushed, read and deleted, and
// /v1/samples, which takes one JSON object a line.
package native
