//go:build amd64 || arm64

package memory

// Prefetch requests the cache lines at some addresses and waits for none of them. Unlike a load, it
// doesn't hold up the instructions that follow.
//
//go:noescape
func Prefetch(addresses []uintptr)
