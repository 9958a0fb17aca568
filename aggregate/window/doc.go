// Package window has the clocks of the table, its windows, and the history of a number.
//
// Clock counts receiving time in ticks and keeps the lifetime clock, which survives restarts. A
// Span is a window as the table keeps it, a View is a span seen from one moment. A History holds a
// number's past values, delta-encoded in a log; Logs is the memory of all logs. A Meter reads from
// a history how much came in a window. Histories are saved here and restored, in all formats.
//
// The package knows no series and takes no lock: whoever calls it holds the history lock of the
// series' block.
package window
