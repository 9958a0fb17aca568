package loadtest

import (
	"context"
	"sync/atomic"
)

// sender sends a scenario's lines to one address. What it counts as sent, the kernel took from it.
type sender interface {
	// warmUp sends every series once, slowly enough that nothing is dropped.
	warmUp(ctx context.Context) (packing, error)
	// load sends so many lines, at most perSecond of them a second (0: as fast as it goes).
	load(ctx context.Context, lines int64, perSecond int, sent *atomic.Int64) (packing, error)
	close() error
}

// warmUpRate is in lines a second. Even in datagrams of one line it is far below what a core takes.
const warmUpRate = 50_000
