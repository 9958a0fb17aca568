package loadtest

import "context"

// sender sends a scenario's lines to one address. It counts the datagrams that the kernel took.
type sender interface {
	// warmUp sends lines so slowly that none is dropped.
	warmUp(ctx context.Context, how warmUp) (packing, error)
	// load sends lines at most perSecond (0: flat out).
	load(ctx context.Context, lines int64, perSecond int) (packing, error)
	close() error
}

// warmUp is the plan of a warm-up.
type warmUp struct {
	lines, perSecond int
	// look is the number of datagrams between two calls of wait, for prepared datagrams.
	look int
	// wait returns when the receiver keeps up.
	wait func(context.Context) error
}

const (
	// singleWarmUpRate is the warm-up rate for datagrams of one line and for other servers, in
	// lines per second.
	singleWarmUpRate = 50_000
	// warmUpRate is the warm-up rate for full datagrams. A server makes new series at several times
	// this rate.
	warmUpRate = 150_000
	// floorWarmUp is the number of lines that warm up a floor, which keeps no series.
	floorWarmUp = 50_000
)
