package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
)

// ErrUnavailable means that the API server could not be asked about a token or a right.
var ErrUnavailable = errors.New("unavailable")

// refusal is an answer other than a page.
type refusal struct {
	status int
	text   string
	// links are pages that may be meant.
	links []metricLink
}

func (r *refusal) Error() string { return r.text }

// credential is what a request shows: its token and where it comes from.
type credential struct {
	token string
	from  netip.Prefix
}

func credentialOf(r *http.Request) credential {
	return credential{tokenOf(r), connlimit.Prefix(r.RemoteAddr)}
}

// tokenOf is the bearer token of a request, as a proxy sends it, or the password of Basic
// authentication: a browser asks its user for one, and the token is pasted there.
func tokenOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return strings.TrimSpace(password)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

// admit checks the right to see a namespace (empty: all of them), and returns who the client is. On loopback
// it is nobody in particular: nil.
func (s *Server) admit(ctx context.Context, c credential, namespace string) (*metric.Principal, error) {
	if s.parts.Access == nil {
		return nil, nil
	}
	if c.token == "" {
		return nil, &refusal{status: http.StatusUnauthorized,
			text: "the console needs a token of the cluster: as the password, with any user name"}
	}
	who, err := s.parts.Access.Who(ctx, c.from, c.token)
	if err != nil {
		return nil, unanswered(err, http.StatusUnauthorized)
	}
	right := metric.Right{Verb: metric.Get, Namespace: namespace}
	allowed, err := s.parts.Access.May(ctx, who, right)
	switch {
	case err != nil:
		return nil, unanswered(err, http.StatusForbidden)
	case !allowed && namespace == "":
		return nil, &refusal{status: http.StatusForbidden,
			text: right.Forbidden(who.User) + ". Choose a namespace that you may read"}
	case !allowed:
		return nil, &refusal{status: http.StatusForbidden, text: right.Forbidden(who.User)}
	}
	return who, nil
}

// ofTheProcess are the pages that have nothing of namespaces, and so are always shown: they say what is waited for.
var ofTheProcess = []string{"nodes", "replicas", "health"}

// answers refuses a page while nothing may be read.
func (s *Server) answers(p *page) error {
	if s.parts.Answers == nil || slices.Contains(ofTheProcess, p.path) {
		return nil
	}
	if ready, why := s.parts.Answers(); !ready {
		return &refusal{status: http.StatusServiceUnavailable, text: why}
	}
	return nil
}

func unanswered(err error, status int) error {
	if errors.Is(err, ErrUnavailable) {
		status = http.StatusServiceUnavailable
	}
	return &refusal{status: status, text: fmt.Sprint(err)}
}

// policy lets a page load its own files and nothing else: no inline script or style runs, whatever a
// name or a label contains.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard sets the headers of every answer, and rejects requests that are neither reads nor a deletion by one of the
// console's own pages, and those that come by DNS rebinding.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		status, fault := methodFault(r)
		switch {
		case fault != nil:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, fault.Error(), status)
		case s.loopback && !config.IsThisMachine(r.Host):
			http.Error(w,
				"Host must be localhost or an IP address: a web page could reach this port by DNS rebinding", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
