package httpserver

import (
	"net/netip"
	"runtime"
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// lightBytes is the memory that each request may take beside its body.
const lightBytes = 128 << 10

// heavyAtWork is how many requests may take more at once. Meanwhile they wait for little but a processor, so no more are at
// work than processors can use.
func heavyAtWork() int { return 2 * runtime.GOMAXPROCS(0) }

// newHeavy makes the places of such requests. One address has half of them: some requests ask the API server for rights.
func newHeavy() *fair.Turns[netip.Prefix] {
	return fair.NewTurns[netip.Prefix](heavyAtWork(), heavyAtWork()/2)
}

// BeginHeavy waits until the request may take so many bytes beside its body, until end is called. Addresses take turns.
func (x *Request) BeginHeavy(bytes int) (end func()) {
	if bytes <= lightBytes {
		return func() {}
	}
	heavy, from := x.server.heavy, x.From()
	heavy.Take(from)
	return sync.OnceFunc(func() { heavy.Give(from) })
}
