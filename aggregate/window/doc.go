// Package window implements the clocks of the table, its windows, and the histories of numbers.
//
// Clock counts receiving time in ticks, and keeps the lifetime clock, which survives restarts. A
// Span is a window in units of ticks; a View is a span that ends at one moment. A History holds a
// number's past values, delta-encoded in a log; Logs allocates the logs. A Meter computes increases
// in a window from a history. The package also saves histories and restores them from all formats.
//
// The package knows no series. Only its allocator takes a lock: callers hold the history lock of
// the series' block.
package window
