package otlpgrpc

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
	"google.golang.org/grpc/codes"
)

// metrics are the port's own. The ledger counts its samples with those of HTTP push.
type metrics struct {
	requests       *prometheus.CounterVec
	duration       prometheus.Histogram
	inFlight       atomic.Int64
	pingedTooOften atomic.Uint64
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_otlp_grpc_requests_total",
			Help: "Calls of OTLP/gRPC answered, by gRPC status code.",
		}, []string{"code"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sluice_otlp_grpc_request_duration_seconds",
			Help:    "Time from the headers of a call of OTLP/gRPC to its answer, including the arrival of the message.",
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 30},
		}),
	}
	for _, code := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		m.requests.WithLabelValues(code.String())
	}
	return m
}

var (
	inFlightDesc = prometheus.NewDesc("sluice_otlp_grpc_requests_in_flight", "Calls of OTLP/gRPC being served.", nil, nil)
	pingsDesc    = prometheus.NewDesc("sluice_otlp_grpc_pinging_connections_total",
		"Connections of OTLP/gRPC closed because the client sent too many pings or resets, or too much of headers.", nil, nil)
	handshakeErrorsDesc = prometheus.NewDesc("sluice_otlp_grpc_tls_handshake_errors_total",
		"TLS handshakes with the OTLP/gRPC port that failed or took too long.", nil, nil)
	acceptErrorsDesc = prometheus.NewDesc("sluice_otlp_grpc_accept_errors_total",
		"Failures to accept a connection of OTLP/gRPC, for example because no file descriptor was free.", nil, nil)
)

// Describe implements prometheus.Collector.
func (d *Door) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, inFlightDesc, pingsDesc, handshakeErrorsDesc, acceptErrorsDesc)
	d.listener.Limiter.Describe(ch)
	d.metrics.requests.Describe(ch)
	d.metrics.duration.Describe(ch)
}

// Collect implements prometheus.Collector.
func (d *Door) Collect(ch chan<- prometheus.Metric) {
	collect.Gauge(ch, inFlightDesc, d.metrics.inFlight.Load())
	collect.Counter(ch, pingsDesc, d.metrics.pingedTooOften.Load())
	collect.Counter(ch, handshakeErrorsDesc, d.listener.Counts.HandshakeErrors.Load())
	collect.Counter(ch, acceptErrorsDesc, d.listener.Counts.AcceptErrors.Load())
	d.listener.Limiter.Collect(ch)
	d.metrics.requests.Collect(ch)
	d.metrics.duration.Collect(ch)
}
