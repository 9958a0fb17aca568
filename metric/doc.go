// Package metric is the vocabulary that every stage of Sluice shares: the nouns of a sample's way
// from a socket to a Kubernetes metrics API, and the one grammar that is ours, "name:stat:window".
//
// Nothing comes before it and everything comes after it: it imports the standard library only, holds
// no state, starts no goroutine and does no I/O.
package metric
