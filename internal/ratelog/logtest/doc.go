// Package logtest holds a log for tests, which they read while others write it.
//
// A test makes a handler of log/slog that writes to it. No binary links the package.
package logtest
