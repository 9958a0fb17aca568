package otlp

import (
	"net/url"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config says where series go.
type Config struct {
	// URL is that of a Collector's metrics, "http://collector:4318/v1/metrics"; empty: off.
	URL string
	// CAFile holds the authorities of the Collector's certificate, in PEM; empty: the system's.
	CAFile string
	// CertFile and KeyFile are the certificate that the Collector is shown, in PEM; empty: none.
	CertFile, KeyFile string
	// HeadersFile holds headers of each request, as OTEL_EXPORTER_OTLP_HEADERS does; empty: none.
	HeadersFile string
	// Interval is the time between two exports.
	Interval time.Duration
}

// DefaultConfig exports nothing.
func DefaultConfig() Config { return Config{Interval: 30 * time.Second} }

// Enabled reports whether there is a Collector.
func (c Config) Enabled() bool { return c.URL != "" }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			faults.Add("URL", "is not the URL of a Collector; must be like http://collector:4318/v1/metrics")
		}
	}
	for _, f := range c.files() {
		switch {
		case f.name == "":
		case c.URL == "":
			faults.Add(f.field, "is set, but %s is empty; must be empty too", config.Field("URL"))
		case f.field != "HeadersFile" && !strings.HasPrefix(c.URL, "https://"):
			faults.Add(f.field, "is set, but %s is not https; must be https://…", config.Field("URL"))
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		faults.Add("CertFile", "must be set together with %s", config.Field("KeyFile"))
	}
	if c.Interval < time.Second {
		faults.Add("Interval", "is %v; must be at least 1s", c.Interval)
	}
	return faults.Join()
}
