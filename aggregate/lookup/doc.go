// Package lookup is the line cache: it maps the bytes of a line, or the name and tags of a sample,
// to the series that they led to before.
//
// Aliases finds records by hash in an open hash table (Slots), without a lock, and compares all
// bytes. A record leads to a series or to a remembered rejection (slots.go). Lines are looked up
// many at a time, one step for all of them, so that the processor waits for their cache misses
// together (lines.go).
//
// The package never parses a line and never touches a series.
package lookup
