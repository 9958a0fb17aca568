package route

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/metrics/pkg/apis/external_metrics"
)

// Provider is another server of external metrics. Any goroutine may use it.
type Provider struct {
	spec              Spec
	names, namespaces *regexp.Regexp // nil: no name; any namespace
	base              string
	timeout           time.Duration
	listLimit         int
	places, answers   *fair.Room[string, int] // of its requests in flight, and of all providers' answers, by Question.Share
	transport         *http.Transport
	client            http.RoundTripper // the transport, with Sluice's credentials
	metrics           *providerMetrics
	log               *slog.Logger

	listed atomic.Pointer[[]string] // names of its discovery; nil: it never answered
	// fault is why the provider gave no answer last; nil: it answered.
	fault atomic.Pointer[fault]
}

func newProvider(cfg Config, s Spec, account *rest.Config, places int, answers *fair.Room[string, int]) (*Provider, error) {
	p := &Provider{
		spec: s, names: patterns(s.Metrics), namespaces: patterns(s.Namespaces), base: strings.TrimSuffix(s.URL, "/"),
		timeout: cfg.Timeout, listLimit: cfg.ListLimit, places: fair.NewRoom[string](places), answers: answers,
	}
	secured, err := s.tls(account)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", s.Name, err)
	}
	// HTTP/1.1: several connections spread over the replicas of a Service, and one that hangs holds up one request.
	p.transport = &http.Transport{
		TLSClientConfig: secured, TLSHandshakeTimeout: cfg.Timeout, DisableCompression: true,
		DialContext:         (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
		MaxIdleConnsPerHost: places, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	p.client, err = transport.HTTPWrappersForConfig(&transport.Config{
		BearerToken: account.BearerToken, BearerTokenFile: account.BearerTokenFile, UserAgent: "sluice",
	}, p.transport)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", s.Name, err)
	}
	return p, nil
}

// tls verifies the provider's certificate by the present content of the file, and shows the client certificate of
// the account, if it has one.
func (s *Spec) tls(account *rest.Config) (*tls.Config, error) {
	own, err := rest.TLSConfigFor(account)
	if err != nil {
		return nil, err
	}
	host := s.ServerName
	if u, err := url.Parse(s.URL); err == nil && host == "" {
		host = u.Hostname()
	}
	secured := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			authorities, err := readAuthorities(s.CAFile)
			if err != nil {
				return untrusted{err}
			}
			others := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				others.AddCert(c)
			}
			if _, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: host, Roots: authorities, Intermediates: others}); err != nil {
				return untrusted{err}
			}
			return nil
		},
	}
	if own != nil {
		secured.Certificates, secured.GetClientCertificate = own.Certificates, own.GetClientCertificate
	}
	return secured, nil
}

// untrusted is why a provider's certificate is not accepted.
type untrusted struct{ error }

func readAuthorities(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return pool, nil
}

// Name is the name in the file of providers.
func (p *Provider) Name() string { return p.spec.Name }

// Fault says why the provider gave no answer last, and since when; empty: it answered. It quotes no answer: that one
// was for a single caller.
func (p *Provider) Fault() (why string, since time.Time) {
	if f := p.fault.Load(); f != nil {
		return f.why, f.since
	}
	return "", time.Time{}
}

// Question is what a caller asks.
type Question struct {
	Namespace string
	Name      string // as it stands in the path, with escapes
	Selector  string
	Reader    user.Info // nil: nobody in particular
	Forwarded bool      // by another Sluice
	Share     string    // of the requests in flight and of the answers: who asks
}

// groupVersion is the path of the API.
const groupVersion = "/apis/external.metrics.k8s.io/v1beta1"

// Ask gets the values of a metric. They take room until the caller calls written. The error is a Status
// of the API, which names the provider.
func (p *Provider) Ask(ctx context.Context, q Question) (list *external_metrics.ExternalMetricValueList, written func(), err error) {
	began := time.Now()
	answer := &held{room: p.answers, share: q.Share}
	list, f := p.ask(ctx, q, answer)
	p.metrics.count(f, time.Since(began))
	if !q.Forwarded {
		p.notice(f)
	}
	if f != nil {
		answer.give()
		return nil, nil, f.status(p.spec.Name, q.Name)
	}
	return list, answer.give, nil
}

func (p *Provider) ask(ctx context.Context, q Question, answer *held) (*external_metrics.ExternalMetricValueList, *fault) {
	if q.Forwarded {
		f := newFault(loop, "another Sluice must ask itself: requests go one hop")
		f.code = http.StatusLoopDetected
		return nil, f
	}
	if known := p.fault.Load(); known != nil && known.result == loop {
		return nil, known
	}
	if !p.places.Take(q.Share, 1) {
		return nil, newFault(busy, "has %d requests in flight, of which one reader has at most three times what is left: it answers too slowly", p.places.Held())
	}
	defer p.places.Give(q.Share, 1)
	path := groupVersion + "/namespaces/" + url.PathEscape(q.Namespace) + "/" + url.PathEscape(q.Name)
	if q.Selector != "" {
		path += "?labelSelector=" + url.QueryEscape(q.Selector)
	}
	var reader user.Info
	if p.spec.Impersonate {
		reader = q.Reader
	}
	body, _, f := p.get(ctx, path, reader, answer)
	if f != nil {
		return nil, f
	}
	return readValues(body)
}

// ForwardedHeader marks the requests of a Sluice to a provider, RoutesHeader the answers to them of a Sluice that has
// providers itself.
const (
	ForwardedHeader = "Sluice-Forwarded"
	RoutesHeader    = "Sluice-Routes"
)

// get returns the body of an answer with status 200, and its headers.
func (p *Provider) get(ctx context.Context, path string, as user.Info, answer *held) ([]byte, http.Header, *fault) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, p.base+path, nil)
	if err != nil {
		return nil, nil, newFault(invalid, "cannot be asked: %v", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set(ForwardedHeader, "true")
	impersonate(req.Header, as)
	resp, err := p.client.RoundTrip(req)
	if err != nil {
		return nil, nil, p.noAnswer(ctx, err)
	}
	defer resp.Body.Close()
	body, f := p.spec.readBody(resp, answer)
	if f != nil && f.cause != nil {
		f = p.noAnswer(ctx, f.cause)
	}
	return body, resp.Header, f
}

// noAnswer is the fault of a request that failed. A caller who went away is no fault of the provider.
func (p *Provider) noAnswer(ctx context.Context, err error) *fault {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return newFault(canceled, "was not waited for: the caller went away")
	case errors.Is(err, context.DeadlineExceeded):
		return newFault(unreachable, "gave no answer within %s", p.timeout)
	}
	var wire *net.OpError
	var trust untrusted
	if errors.As(err, &wire) || errors.As(err, &trust) { // no answer was read
		return newFault(unreachable, "cannot be reached at %s: %v", p.base, err)
	}
	return newFault(unreachable, "cannot be reached at %s", p.base).quoting(err.Error())
}

// impersonate asks as the caller. The other side adds the groups that every user or service account has.
func impersonate(header http.Header, who user.Info) {
	if who == nil {
		return
	}
	header.Set(authenticationv1.ImpersonateUserHeader, who.GetName())
	for _, group := range who.GetGroups() {
		if group != user.AllAuthenticated && !strings.HasPrefix(group, "system:serviceaccounts") {
			header.Add(authenticationv1.ImpersonateGroupHeader, group)
		}
	}
}
