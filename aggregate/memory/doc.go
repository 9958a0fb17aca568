// Package memory allocates the table's memory outside of Go's heap: arenas that grow in place,
// pools and size classes with free lists, epoch-based reclamation, and prefetching.
//
// It knows bytes and writers, but not the contents of the bytes. It never returns memory to the
// system while the table is in use.
package memory
