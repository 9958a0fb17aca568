// Package native serves Sluice's own protocol: a path for each metric, on which it is pushed, read
// and deleted, and /v1/samples, which takes one JSON object a line.
package native
