package loadtest

import "context"

// sender sends a scenario's lines to one address. What it counts as sent, the kernel took from it.
type sender interface {
	// warmUp sends the first lines of the warm-up, so that nothing is dropped.
	warmUp(ctx context.Context, how warmUp) (packing, error)
	// load sends so many lines, at most perSecond of them a second (0: as fast as it goes).
	load(ctx context.Context, lines int64, perSecond int) (packing, error)
	close() error
}

// warmUp is how to warm up.
type warmUp struct {
	lines, perSecond int
	// look is after how many datagrams wait is called, of a sender that packs them itself.
	look int
	// wait is called between datagrams, and returns once the receiver keeps up.
	wait func(context.Context) error
}

const (
	// singleWarmUpRate is in lines a second, and what a datagram of one line may be sent at.
	singleWarmUpRate = 50_000
	// warmUpRate is for full datagrams. A server makes new series at several times this rate.
	warmUpRate = 150_000
	// floorWarmUp is how many lines warm up what keeps no series.
	floorWarmUp = 50_000
)
