// Package relay forwards StatsD lines to other servers as they came.
//
// Before it stand the StatsD sockets, which hand it the lines that they read; after it are other
// StatsD servers. The lines of each target wait in a queue of bounded size. Relay copies lines and
// returns: it never waits for a target, and lines that find no room are dropped and counted. The
// package never parses a line, and never decides whether a line is applied.
//
// # Shared state
//
// Goroutines of sockets append to queue.waiting under queue.mu, and the goroutine of the target
// exchanges it for an empty buffer. The lock is held for a copy or an exchange, never during I/O.
package relay
