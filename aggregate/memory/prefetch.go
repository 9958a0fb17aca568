//go:build amd64 || arm64

package memory

// Prefetch requests the cache lines at some addresses without waiting for them. Unlike a load, it
// doesn't delay the instructions that follow.
//
//go:noescape
func Prefetch(addresses []uintptr)
