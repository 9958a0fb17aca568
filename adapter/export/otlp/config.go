package otlp

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"golang.org/x/net/http/httpguts"
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

// credentials are the client and the headers with which requests are sent, by files that are read
// again before each export. One goroutine uses them.
type credentials struct {
	config  Config
	content [4][]byte // of the files, as they were read last
	client  *http.Client
	headers http.Header
}

// files are those of the configuration; those with an empty name are not read.
func (c *Config) files() [4]struct {
	field config.Field
	name  string
} {
	return [4]struct {
		field config.Field
		name  string
	}{{"CAFile", c.CAFile}, {"CertFile", c.CertFile}, {"KeyFile", c.KeyFile}, {"HeadersFile", c.HeadersFile}}
}

// load reads the files, and makes a client of them if they have changed. After an error the former
// ones stay.
func (c *credentials) load() error {
	var content [4][]byte
	same := c.client != nil
	for i, f := range c.config.files() {
		if f.name == "" {
			continue
		}
		var err error
		if content[i], err = os.ReadFile(f.name); err != nil {
			return config.NewFault(f.field, "cannot be read: %w", err)
		}
		same = same && bytes.Equal(content[i], c.content[i])
	}
	if same {
		return nil
	}
	headers, err := parseHeaders(string(content[3]))
	if err != nil {
		return config.NewFault("HeadersFile", "%w", err)
	}
	secured, err := c.config.tls(content)
	if err != nil {
		return err
	}
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	c.content, c.headers = content, headers
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secured
	c.client = &http.Client{
		Transport: transport, Timeout: sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// tls makes a configuration of the contents of CAFile, CertFile and KeyFile. Without CAFile, the
// authorities are those of the system.
func (c *Config) tls(content [4][]byte) (*tls.Config, error) {
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(content[0]) {
			return nil, config.NewFault("CAFile", "has no certificate in PEM")
		}
	}
	if c.CertFile != "" {
		pair, err := tls.X509KeyPair(content[1], content[2])
		if err != nil {
			return nil, config.NewFault("CertFile", "cannot be used with %s: %w", config.Field("KeyFile"), err)
		}
		secured.Certificates = []tls.Certificate{pair}
	}
	return secured, nil
}

// parseHeaders reads headers as OTEL_EXPORTER_OTLP_HEADERS has them: key=value, with "%20" for a
// space, and with commas between, or line ends. An error names no value.
func parseHeaders(text string) (http.Header, error) {
	headers := http.Header{}
	for i, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, is := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case !is || !httpguts.ValidHeaderFieldName(key):
			return nil, fmt.Errorf("has no header in place %d; must be key=value, as in authorization=Bearer%%20TOKEN, with commas or line ends between", i+1)
		case err != nil || !httpguts.ValidHeaderFieldValue(value):
			return nil, fmt.Errorf("has an invalid value of %s; %%, commas and line ends must be written as %%25, %%2C and %%0A",
				key)
		case ownHeader(key):
			return nil, fmt.Errorf("has the header %s, which the export sets itself; must be left out", key)
		}
		headers.Add(key, value)
	}
	return headers, nil
}

func ownHeader(key string) bool {
	for _, own := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Host"} {
		if strings.EqualFold(key, own) {
			return true
		}
	}
	return false
}
