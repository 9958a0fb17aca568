package adapter

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// metrics counts the requests. The Kubernetes libraries have metrics of their own, in a registry
// that is not served.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	groups   map[string]bool
}

func newMetrics(groups []group) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_api_requests_total",
			Help: "Requests to the Kubernetes API, by verb, API group (other: discovery, health, version) and HTTP status.",
		}, []string{"verb", "group", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sluice_api_request_duration_seconds",
			Help:    "Duration of requests to the Kubernetes API.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10},
		}, []string{"verb", "group"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_api_requests_in_flight",
			Help: "Requests to the Kubernetes API in flight.",
		}),
		groups: map[string]bool{},
	}
	for _, g := range groups {
		m.groups[g.versions[0].Group] = true
	}
	return m
}

// Register adds the server's metrics to a registry.
func (s *Server) Register(registerer prometheus.Registerer) error {
	expires := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_api_certificate_expires_timestamp_seconds",
		Help: "Unix time at which the certificate of the metrics APIs expires.",
	}, (&sharedCertificate{from: s.certificate}).expires)
	for _, c := range []prometheus.Collector{s.metrics.requests, s.metrics.duration, s.metrics.inFlight, expires,
		s.listener.Limiter} {
		if err := registerer.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// instrument counts every answer, whichever handler gave it, and remembers the last ones that the
// API server asked for.
func (m *metrics) instrument(next http.Handler, resolver request.RequestInfoResolver, asked *uses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		verb, group := m.labels(r, resolver)
		viaAPIServer := forwarded(r) // authentication removes the header
		m.inFlight.Inc()
		recorder := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		defer func() {
			m.inFlight.Dec()
			m.requests.WithLabelValues(verb, group, strconv.Itoa(recorder.code)).Inc()
			m.duration.WithLabelValues(verb, group).Observe(time.Since(start).Seconds())
			if viaAPIServer {
				asked.noteGroup(r.URL.Path, recorder.code)
			}
		}()
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(recorder), r)
	})
}

// other replaces labels that a client could make up, so clients cannot create series.
const other = "other"

func (m *metrics) labels(r *http.Request, resolver request.RequestInfoResolver) (verb, apiGroup string) {
	verb, apiGroup = other, other
	if checkQuery(r) != nil {
		r = withoutQuery(r) // the resolver would log a malformed query
	}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		return verb, apiGroup
	}
	switch info.Verb {
	case "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection":
		verb = info.Verb
	}
	if m.groups[info.APIGroup] {
		apiGroup = info.APIGroup
	}
	return verb, apiGroup
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	code  int
	wrote bool
}

// WriteHeader implements http.ResponseWriter.
func (s *statusRecorder) WriteHeader(code int) {
	if !s.wrote {
		s.code, s.wrote = code, code >= http.StatusOK
	}
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap implements the library's UserProvidedDecorator.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
