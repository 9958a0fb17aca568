package keda

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The operator's calls have no deadline, and the one that waits holds the lock that its pushes need.
const (
	answerPatience = time.Second
	// mostAnswering bounds the requests that are being answered: one that hangs is answered for the
	// caller, but its goroutine stays until it has read its value.
	mostAnswering = 1024
)

// patience answers in the place of handlers that hang.
type patience struct {
	answering chan struct{} // one entry per handler that runs
}

func newPatience() patience { return patience{make(chan struct{}, mostAnswering)} }

// unary is a grpc.UnaryServerInterceptor.
func (p patience) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
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
