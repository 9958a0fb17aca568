package keda

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/fair"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

// The operator's calls have no deadline, and the one that waits holds the lock that its pushes need.
const (
	answerPatience = time.Second
	// mostAnswering bounds the requests that are being answered: one that hangs is answered for the
	// caller, but its goroutine stays until it has read its value.
	mostAnswering = 1024
	// turnPatience is how long a request waits for its turn, so that half of answerPatience is left for the reading.
	turnPatience = answerPatience / 2
	// namespacesReading is the number of namespaces whose requests may keep all processors busy side by side; then
	// they take turns.
	namespacesReading = 8
	// callPatience bounds a unary call from its headers to its end, and a stream from its headers to its
	// message. A call of headers alone, or of half a message, holds 11 to 75 KiB until then, and a connection
	// may open mostStreams.
	callPatience = 5 * time.Second
	// mostAwaited bounds the calls that may wait for their message for callPatience: 75 MiB. Those beyond it
	// have hurriedPatience, which is plenty for a client that sends its message with the headers.
	mostAwaited     = 1024
	hurriedPatience = 100 * time.Millisecond
	// mostKept bounds the messages of all open streams, which hold their metadata as long as they last: 2 KiB
	// for each of mostStreams. An ordinary one has 300 bytes.
	mostKept = 64 << 20
)

// patience answers in the place of handlers that hang, and ends calls whose message does not come.
type patience struct {
	// answering are the requests that are being answered. The author of a namespace has any number of triggers polled,
	// each as often as once a second.
	answering *fair.Room[string, int]
	reading   *fair.Turns[string] // places of handlers that run; namespaces take turns
	awaited   atomic.Int64        // calls whose message has not come
	kept      keptMessages
	// mayAsk says whether requests of a namespace may come on the connection of a context; nil: they may.
	mayAsk func(ctx context.Context, namespace string) error
}

func newPatience() *patience {
	each := runtime.GOMAXPROCS(0)
	return &patience{answering: fair.NewRoom[string](mostAnswering), reading: fair.NewTurns[string](namespacesReading*each, each)}
}

// begin admits a request, or says why not.
func (p *patience) begin(ctx context.Context, namespace string) error {
	if err := p.onItsConnection(ctx, namespace); err != nil {
		return err
	}
	if p.answering.Take(namespace, 1) {
		return nil
	}
	return status.Errorf(codes.Unavailable, "%d of %d answers are under way in namespace %q, and some are left to others; try again",
		p.answering.Of(namespace), mostAnswering, namespace)
}

func (p *patience) onItsConnection(ctx context.Context, namespace string) error {
	if p.mayAsk == nil {
		return nil
	}
	return p.mayAsk(ctx, namespace)
}

// arrival is the wait for a call's message.
type arrival struct {
	patience *patience
	timer    *time.Timer // of a stream; ends its context
	over     sync.Once
}

type arrivalKey struct{}

// came ends the wait, because the message has come or the call has ended.
func (a *arrival) came() {
	a.over.Do(func() {
		a.patience.awaited.Add(-1)
		if a.timer != nil {
			a.timer.Stop()
		}
	})
}

// cameOf is came for the call of a context.
func cameOf(ctx context.Context) {
	if wait, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		wait.came()
	}
}

// tap gives a call its deadline: a stream loses it when its message comes. It is a tap.ServerInHandle, since
// interceptors of unary calls run after the message has come.
//
// Beyond mostAwaited it shortens the deadline and returns no error: grpc-go (1.84) never stops the timer of a
// call that a tap refuses, so a client that sends long timeouts would fill the memory with timers.
func (p *patience) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	within := callPatience
	if p.awaited.Add(1) > mostAwaited {
		within = hurriedPatience
	}
	wait, cancel := &arrival{patience: p}, context.CancelFunc(nil)
	if isStream[info.FullMethodName] {
		ctx, cancel = context.WithCancel(ctx)
		wait.timer = time.AfterFunc(within, cancel) // the client gets the code Canceled
	} else {
		ctx, cancel = context.WithTimeout(ctx, within)
	}
	context.AfterFunc(ctx, func() { // at the end of the call, too
		cancel()
		wait.came()
	})
	return context.WithValue(ctx, arrivalKey{}, wait), nil
}

// awaitedStream notes the arrival of a stream's message, and how much of it is kept.
type awaitedStream struct {
	grpc.ServerStream
	patience *patience
	release  func() // of the message; nil: none is kept
}

// RecvMsg implements grpc.ServerStream.
func (s *awaitedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if message, ok := m.(proto.Message); err == nil && ok && s.release == nil {
		err = s.keep(message)
	}
	cameOf(s.Context())
	return err
}

// keep keeps the stream's message until its end.
func (s *awaitedStream) keep(message proto.Message) error {
	kept, size, namespace := &s.patience.kept, int64(proto.Size(message)), namespaceOf(message)
	if err := s.patience.onItsConnection(s.Context(), namespace); err != nil {
		return err
	}
	if err := kept.take(namespace, size); err != nil {
		return err
	}
	s.release = func() { kept.give(namespace, size) }
	return nil
}

// stream answers a stream whose message is bounded in time and size.
func (p *patience) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	a := &awaitedStream{ServerStream: ss, patience: p}
	defer func() {
		if a.release != nil {
			a.release()
		}
	}()
	return handler(srv, a)
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
func (p *patience) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	cameOf(ctx)
	namespace := namespaceOf(req)
	if err := p.begin(ctx, namespace); err != nil {
		return nil, err
	}
	type result struct {
		answer any
		err    error
	}
	ended := make(chan result, 1)
	turn, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	go func() {
		defer p.answering.Give(namespace, 1)
		if p.reading.Await(turn, namespace) != nil {
			return // unary has answered by the time that the value would be read
		}
		defer p.reading.Give(namespace)
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

// namespaceOf is the namespace of a request; empty: it has none, as one about health.
func namespaceOf(req any) string {
	switch of := req.(type) {
	case *externalscaler.ScaledObjectRef:
		return of.GetNamespace()
	case *externalscaler.GetMetricsRequest:
		return of.GetScaledObjectRef().GetNamespace()
	}
	return ""
}
