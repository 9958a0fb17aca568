package credential

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	credentials *prometheus.CounterVec
	rights      *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		credentials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_credentials_total",
			Help: "Credentials of HTTP requests, by sort (token, password, certificate) and result (good, bad, unavailable: the check failed).",
		}, []string{"sort", "result"}),
		rights: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_rights_asked_total",
			Help: "Requests to the API server about rights to push, read or delete, by answer (granted, refused, unavailable).",
		}, []string{"answer"}),
	}
	for _, sort := range []string{"token", "password", "certificate"} {
		for _, result := range []string{"good", "bad", "unavailable"} {
			m.credentials.WithLabelValues(sort, result)
		}
	}
	for _, answer := range []string{"granted", "refused", "unavailable"} {
		m.rights.WithLabelValues(answer)
	}
	return m
}

// Register registers the metrics of credentials and rights.
func (d *Authenticator) Register(r prometheus.Registerer) error {
	return errors.Join(r.Register(d.metrics.credentials), r.Register(d.metrics.rights))
}

func (m *metrics) checked(sort string, err error) {
	result := "good"
	switch {
	case errors.Is(err, ErrUnavailable):
		result = "unavailable"
	case err != nil:
		result = "bad"
	}
	m.credentials.WithLabelValues(sort, result).Inc()
}

func (m *metrics) asked(granted bool, err error) {
	answer := "refused"
	switch {
	case err != nil:
		answer = "unavailable"
	case granted:
		answer = "granted"
	}
	m.rights.WithLabelValues(answer).Inc()
}
