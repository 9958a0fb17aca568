// Package memory allocates the table's memory outside of Go's heap: arenas that grow in place,
// pools and size classes with free lists, epoch-based reclamation, and prefetching.
//
// A writer is in a quiescent state when it holds no reference to a series. The memory of a removed
// series is reused after every writer has passed such a state, or is offline.
//
// The package knows bytes and writers, but not the contents of the bytes. It never returns memory to
// the system while the table is in use.
package memory
