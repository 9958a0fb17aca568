//go:build !amd64 && !arm64

package aggregate

// prefetch does nothing: who needs what is there waits for it.
func prefetch([]uintptr) {}
