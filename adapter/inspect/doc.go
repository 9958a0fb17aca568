// Package inspect describes what a Sluice holds and why something is missing: documents for lists,
// for "sluice explain" and for the console (docs/adr/0054). It follows the table, the limits, the
// receivers and the cluster view, whose state it describes, and precedes everything that shows it.
//
// It never computes a metric's value, and never changes what it describes.
package inspect
