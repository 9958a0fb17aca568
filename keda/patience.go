package keda

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/keda/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// The operator's calls have no deadline, and the one that waits holds the lock that its pushes need.
const (
	answerPatience = time.Second
	// mostAnswering bounds the requests that are being answered: one that hangs is answered for the
	// caller, but its goroutine stays until it has read its value.
	mostAnswering = 1024
	// callPatience bounds a unary call from its headers to its end. A call of headers alone, or of half a
	// message, holds 11 KiB in a goroutine that waits for the rest, and a connection may open mostStreams.
	callPatience = 5 * time.Second
	// mostCalls bounds the unary calls that may take callPatience. Those beyond it have hurriedPatience, which
	// is plenty for a client that sends its message with the headers.
	mostCalls       = 4096
	hurriedPatience = 100 * time.Millisecond
)

// patience answers in the place of handlers that hang, and ends calls whose message does not come.
type patience struct {
	answering chan struct{} // one entry per handler that runs
	calls     atomic.Int64  // unary calls, from their headers on
}

func newPatience() *patience { return &patience{answering: make(chan struct{}, mostAnswering)} }

// tap gives a unary call its deadline. It is a tap.ServerInHandle, since interceptors run after the message
// has come. Streams have no deadline: their interceptor counts them before their message (counters.bounded).
//
// Beyond mostCalls it shortens the deadline and returns no error: grpc-go (1.84) never stops the timer of a
// call that a tap refuses, so a client that sends long timeouts would fill the memory with timers.
func (p *patience) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if isStream[info.FullMethodName] {
		return ctx, nil
	}
	within := callPatience
	if p.calls.Add(1) > mostCalls {
		within = hurriedPatience
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	context.AfterFunc(ctx, func() { // at the end of the call, too
		cancel()
		p.calls.Add(-1)
	})
	return ctx, nil
}

// isStream holds the full names of the methods that are streams.
var isStream = streamsOf(&externalscaler.ExternalScaler_ServiceDesc, &grpc_health_v1.Health_ServiceDesc)

func streamsOf(services ...*grpc.ServiceDesc) map[string]bool {
	names := map[string]bool{}
	for _, service := range services {
		for _, stream := range service.Streams {
			names["/"+service.ServiceName+"/"+stream.StreamName] = true
		}
	}
	return names
}

// unary is a grpc.UnaryServerInterceptor.
func (p *patience) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	select {
	case p.answering <- struct{}{}:
	default:
		return nil, status.Errorf(codes.Unavailable, "%d answers are under way (the limit); try again", mostAnswering)
	}
	type result struct {
		answer any
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		defer func() { <-p.answering }()
		answer, err := handler(ctx, req)
		ended <- result{answer, err}
	}()
	late := time.NewTimer(answerPatience)
	defer late.Stop()
	select {
	case r := <-ended:
		return r.answer, r.err
	case <-ctx.Done(): // the caller has gone
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-late.C:
		return nil, status.Errorf(codes.Unavailable, "no answer within %s", answerPatience)
	}
}
