// Package memory is the table's memory outside of Go's heap: arenas that grow in place, free lists,
// epoch-based reclamation, and prefetching.
//
// It knows bytes and writers only; what lies in the bytes is the business of the packages above. It
// never returns memory to the system while the table lives.
package memory
