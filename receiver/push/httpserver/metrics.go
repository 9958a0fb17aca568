package httpserver

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/valyala/fasthttp"
)

// metrics are the server's own. Requests are counted in plain cells: looking up a label per request
// would cost more than the rest of the accounting.
type metrics struct {
	requests [len(methods)][600]atomic.Uint64 // by method, then status
	inFlight atomic.Int64
	expires  func() int64 // Unix seconds; nil: there is no certificate
	listener *listener.Listener
	duration prometheus.Histogram
}

// methods are the label's values; a method that HTTP does not define is "other".
var methods = [...]string{"GET", "HEAD", "PUT", "POST", "DELETE", "other"}

func newMetrics() *metrics {
	return &metrics{duration: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "sluice_http_request_duration_seconds",
		Help:    "Time from a request's headers to its answer, including the arrival of the body.",
		Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 30},
	})}
}

// Register registers the server's metrics. The ledger registers those of samples.
func (s *Server) Register(r prometheus.Registerer) error {
	if err := errors.Join(r.Register(s.metrics), r.Register(s.listener.Limiter)); err != nil {
		return err
	}
	if s.Authenticator != nil {
		if err := s.Authenticator.Register(r); err != nil {
			return err
		}
	}
	return r.Register(s.metrics.duration)
}

func (m *metrics) count(method []byte, status int) {
	i := len(methods) - 1
	for j, name := range methods[:i] {
		if string(method) == name {
			i = j
		}
	}
	if status < 0 || status >= len(m.requests[i]) {
		status = fasthttp.StatusInternalServerError
	}
	m.requests[i][status].Add(1)
}

var (
	requestsDesc = prometheus.NewDesc("sluice_http_requests_total",
		"HTTP push requests answered, by method and status.", []string{"method", "code"}, nil)
	inFlightDesc = prometheus.NewDesc("sluice_http_requests_in_flight",
		"HTTP push requests being served.", nil, nil)
	handshakeErrorsDesc = prometheus.NewDesc("sluice_http_tls_handshake_errors_total",
		"TLS handshakes with the HTTP push receiver that failed or took too long.", nil, nil)
	expiresDesc = prometheus.NewDesc("sluice_http_certificate_expires_timestamp_seconds",
		"Unix time at which the certificate of the HTTP push receiver expires; absent if the port is plain HTTP.", nil, nil)
	acceptErrorsDesc = prometheus.NewDesc("sluice_http_accept_errors_total",
		"Failures to accept a connection, for example because no file descriptor was free.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, requestsDesc, inFlightDesc, acceptErrorsDesc, handshakeErrorsDesc, expiresDesc)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for i := range m.requests {
		for status := range m.requests[i] {
			if n := m.requests[i][status].Load(); n > 0 {
				collect.Counter(ch, requestsDesc, n, methods[i], strconv.Itoa(status))
			}
		}
	}
	collect.Gauge(ch, inFlightDesc, m.inFlight.Load())
	collect.Counter(ch, acceptErrorsDesc, m.listener.Counts.AcceptErrors.Load())
	collect.Counter(ch, handshakeErrorsDesc, m.listener.Counts.HandshakeErrors.Load())
	if m.expires != nil {
		collect.Gauge(ch, expiresDesc, m.expires())
	}
}
