package keda

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/collect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	streamsDesc = prometheus.NewDesc("sluice_keda_streams", "Open streams of KEDA's push triggers.", nil, nil)
	refusedDesc = prometheus.NewDesc("sluice_keda_refused_connections_total",
		"Connections to the KEDA port that were refused because of the client's certificate.", nil, nil)
	expiresDesc = prometheus.NewDesc("sluice_keda_certificate_expires_timestamp_seconds",
		"Unix time at which the certificate of the KEDA port expires; absent without one.", nil, nil)
)

// counters count requests and activations.
type counters struct {
	requests    *prometheus.CounterVec
	activations prometheus.Counter
	open        atomic.Int64 // streams of all methods
}

func newCounters() *counters {
	c := &counters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_keda_requests_total",
			Help: "Requests of KEDA, by method and gRPC status code. A stream counts when it ends.",
		}, []string{"method", "code"}),
		activations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_keda_activations_total",
			Help: "Activations sent on streams, repetitions included.",
		}),
	}
	for _, rpc := range externalscaler.ExternalScaler_ServiceDesc.Methods {
		c.requests.WithLabelValues(rpc.MethodName, codes.OK.String())
	}
	return c
}

func (c *counters) sent(active bool) {
	if active {
		c.activations.Inc()
	}
}

func (c *counters) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, req)
	c.requests.WithLabelValues(method(info.FullMethod), codeOf(ctx, err).String()).Inc()
	return answer, err
}

func (c *counters) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	err := c.bounded(srv, ss, handler)
	c.requests.WithLabelValues(method(info.FullMethod), codeOf(ss.Context(), err).String()).Inc()
	return err
}

// codeOf is the code of an answer. A call that its client has ended is Canceled, whatever failed then.
func codeOf(ctx context.Context, err error) codes.Code {
	if err == nil || ctx.Err() == nil {
		return status.Code(err)
	}
	return status.FromContextError(ctx.Err()).Code()
}

// bounded answers a stream, unless too many are open. The operator then polls the trigger.
func (c *counters) bounded(srv any, ss grpc.ServerStream, handler grpc.StreamHandler) error {
	defer c.open.Add(-1)
	if c.open.Add(1) > mostStreams {
		return status.Errorf(codes.ResourceExhausted, "%d streams are open (the limit)", mostStreams)
	}
	return handler(srv, ss)
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, streamsDesc, refusedDesc, expiresDesc)
	s.listener.Describe(ch)
	s.count.requests.Describe(ch)
	s.count.activations.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	collect.Gauge(ch, streamsDesc, s.watcher.count())
	s.listener.Collect(ch)
	s.count.requests.Collect(ch)
	s.count.activations.Collect(ch)
	if s.secured == nil {
		return
	}
	s.secured.Look() // there may be no handshake for months
	collect.Counter(ch, refusedDesc, s.secured.Refused())
	collect.Gauge(ch, expiresDesc, s.secured.Expires())
}
