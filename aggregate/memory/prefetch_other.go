//go:build !amd64 && !arm64

package memory

// Prefetch does nothing: later loads wait for their cache lines.
func Prefetch([]uintptr) {}
