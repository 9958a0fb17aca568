package httpserver

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/valyala/fasthttp"
)

const (
	// lightBytes is the memory that each request may take beside its body.
	lightBytes = 128 << 10
	// askingBytes is the memory that requests may take more while they ask the API server.
	askingBytes = 128 << 20
	// placePatience is how long a request waits for a place: for a processor.
	placePatience = 5 * time.Second
)

// heavyAtWork is how many requests may take more at once. Meanwhile they wait for little but a processor, so no more are at
// work than processors can use.
func heavyAtWork() int { return 2 * runtime.GOMAXPROCS(0) }

// heavy are the places of such requests.
type heavy struct {
	// places: one address has half of them.
	places *fair.Turns[netip.Prefix]
	// asking is the memory of those that ask the API server, by sender's namespace. They wait for long, and have left their places.
	asking *fair.Room[string, int64]
}

func newHeavy() heavy {
	return heavy{fair.NewTurns[netip.Prefix](heavyAtWork(), heavyAtWork()/2), fair.NewBriefRoom[string](0, int64(askingBytes))}
}

// heavyPlace is what a request has of heavy.
type heavyPlace struct {
	bytes int    // 0: nothing
	share string // of the room of those that ask; empty: it has a place
}

// BeginHeavy waits until the request may take so many bytes beside its body, until end is called. Addresses take turns.
func (x *Request) BeginHeavy(bytes int) (end func(), f *Fault) {
	if bytes <= lightBytes {
		return func() {}, nil
	}
	x.renew() // which may ask the API server
	if x.server.heavy.places.AwaitFor(x.context(), placePatience, x.From()) != nil {
		return nil, tooCrowded("more large requests wait than processors can serve")
	}
	x.heavy = heavyPlace{bytes: bytes}
	return x.endHeavy, nil
}

func (x *Request) endHeavy() {
	switch {
	case x.heavy.bytes == 0:
		return
	case x.heavy.share != "":
		x.server.heavy.asking.Give(x.heavy.share, int64(x.heavy.bytes))
	default:
		x.server.heavy.places.Give(x.From())
	}
	x.heavy = heavyPlace{}
}

var errManyAsk = errors.New("too many large requests wait for answers of the API server about rights")

// leavePlace leaves the request's place to others, because it is about to ask the API server.
func (x *Request) leavePlace() error {
	if x.heavy.bytes == 0 || x.heavy.share != "" {
		return nil
	}
	share := x.ShareName()
	if !x.server.heavy.asking.Take(share, int64(x.heavy.bytes)) {
		return errManyAsk
	}
	x.server.heavy.places.Give(x.From())
	x.heavy.share = share
	return nil
}

// context ends when the request may wait no longer.
func (x *Request) context() context.Context {
	if x.call != nil {
		return x.call.Context
	}
	return x.server.life
}

// tooCrowded makes the fault of a request that waited in vain.
func tooCrowded(why string) *Fault {
	f := TooBusy("%s: send it again in a moment", why)
	f.Status = fasthttp.StatusServiceUnavailable
	return f
}
