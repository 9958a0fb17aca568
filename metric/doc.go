// Package metric is the vocabulary that every stage of Sluice shares. It holds the nouns on a
// sample's path from a socket to a Kubernetes metrics API, and the grammar "name:stat:window".
//
// All other packages import it; it imports the standard library only. It never holds state, starts
// goroutines or does I/O.
package metric
