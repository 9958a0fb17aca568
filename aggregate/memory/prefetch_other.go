//go:build !amd64 && !arm64

package memory

// Prefetch does nothing: who needs what is there waits for it.
func Prefetch([]uintptr) {}
