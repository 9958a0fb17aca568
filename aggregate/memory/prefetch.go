//go:build amd64 || arm64

package memory

// Prefetch asks for the cache lines of addresses, whatever is there, and waits for none: the processor goes on to the next line of
// StatsD, whereas a load that it waits for holds up all that come a few hundred steps behind it.
//
//go:noescape
func Prefetch(addresses []uintptr)
