package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
)

// Config says where the kubelet is.
type Config struct {
	// Address is its host:port; empty: it is not asked.
	Address string
	// CAFile has the authorities of its certificate, in PEM; empty: those of the system.
	CAFile string
	// InsecureTLS takes any certificate.
	InsecureTLS bool
	// TokenFile has the token of a service account that may get nodes/metrics, read again for each request.
	TokenFile string
	// Interval is the time between two requests.
	Interval time.Duration
}

// DefaultConfig asks no kubelet.
func DefaultConfig() Config { return Config{Interval: 10 * time.Second} }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.Address != "" {
		faults.AddUnlessHostPort("Address", c.Address, "192.0.2.7:10250")
	}
	if c.InsecureTLS && c.CAFile != "" {
		faults.Add("InsecureTLS", "is true, and so %s is of no use; must be one of them", config.Field("CAFile"))
	}
	if c.Interval < time.Second || c.Interval > maxInterval {
		faults.Add("Interval", "is %v; must be 1s to %v: a server forgets what is a minute old", c.Interval, maxInterval)
	}
	return faults.Join()
}

const maxInterval = 30 * time.Second

// timeout bounds a request: a kubelet that measures on demand takes seconds.
const timeout = 10 * time.Second

// Client asks one kubelet.
type Client struct {
	cfg  Config
	http *http.Client
}

// NewClient prepares requests.
func NewClient(cfg Config) (*Client, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cfg.InsecureTLS}
	if cfg.CAFile != "" {
		text, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the authorities of the kubelet cannot be read: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", cfg.CAFile)
		}
	}
	transport := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: time.Hour}
	return &Client{cfg, &http.Client{Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the kubelet redirects, which is not followed")
		}}}, nil
}

// Read asks for the newest measurements.
func (c *Client) Read(ctx context.Context) (*metric.UsagePage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.cfg.Address+"/metrics/resource", nil)
	if err != nil {
		return nil, err
	}
	if c.cfg.TokenFile != "" {
		token, err := os.ReadFile(c.cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("the token for the kubelet cannot be read: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	now := time.Now()
	answer, err := c.http.Do(request)
	if err != nil {
		var unknown x509.UnknownAuthorityError
		var invalid x509.CertificateInvalidError
		var host x509.HostnameError
		if errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host) {
			return nil, fmt.Errorf("the kubelet's certificate is not accepted (%w): set kubelet-ca-file to its authority's", err)
		}
		return nil, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, errors.New("the kubelet answers 401: it does not know the token; webhook authentication must be on")
	case http.StatusForbidden:
		return nil, errors.New(`the kubelet answers 403: the service account lacks the right to "get" "nodes/metrics"`)
	default:
		return nil, fmt.Errorf("the kubelet answers %s", answer.Status)
	}
	return Parse(answer.Body, now)
}
