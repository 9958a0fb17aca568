package httpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/valyala/fasthttp"
)

// The values of Config.Auth.
const (
	AuthNone  = "none"
	AuthToken = "token"
)

// newAuthenticator makes the check of credentials and of rights; nil: none is configured, and there is no cluster.
func newAuthenticator(cfg Config, parts Parts) (*credential.Authenticator, error) {
	if cfg.Auth != AuthToken && parts.Authority == nil && cfg.BasicAuthFile == "" && cfg.TLSClientCAFile == "" {
		return nil, nil
	}
	return credential.NewAuthenticator(credential.Config{Tokens: cfg.Auth == AuthToken, BasicAuthFile: cfg.BasicAuthFile,
		DescribeError: parts.Worded}, parts.Authority, parts.Logger)
}

// EndNamespace ends the tokens of a namespace that was deleted; again: there is a later one of the name already.
func (s *Server) EndNamespace(namespace string, again bool) {
	s.Authenticator.EndNamespace(namespace, again)
}

// Pods finds pods of the cluster.
type Pods interface {
	// PodWithUID returns the live pod, or nil.
	PodWithUID(uid string) *metric.Pod
}

// authenticate finds the account of the request's credential, if it has one. A credential must be
// valid, but one of a sort that is not configured is ignored, and the answer says so: Pushgateway clients
// often send a name and a password to servers that check none.
func (x *Request) authenticate() *Fault {
	authenticator := x.server.Authenticator
	if authenticator == nil {
		if len(x.HTTP.Request.Header.Peek(fasthttp.HeaderAuthorization)) > 0 {
			x.warnUnchecked()
		}
		return nil
	}
	who, f := x.shown(authenticator)
	x.caller.known = f == nil && who != nil
	switch {
	case f != nil:
		return f
	case who == nil && x.server.trust == nil && authenticator.AcceptsPasswords():
		return x.server.unauthorized("this server asks for a name and a password, and none was sent")
	case x.server.trust != nil: // without Trust, every valid credential may do everything
		x.caller.account = who
	}
	return nil
}

// warnUnchecked tells the client that its credential had no effect (Warning: RFC 7234, section 5.5).
func (x *Request) warnUnchecked() {
	x.HTTP.Response.Header.Set(fasthttp.HeaderWarning,
		`299 - "the credential in Authorization is not checked: this server has no authentication of that kind (push-auth, push-basic-auth-file)"`)
}

func (x *Request) shown(authenticator *credential.Authenticator) (*credential.Principal, *Fault) {
	headers := x.HTTP.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	if len(headers) > 1 {
		f := BadRequest("there are %d Authorization headers; must be at most 1", len(headers))
		f.Uncounted = true
		return nil, f
	}
	ctx, cancel := context.WithTimeout(x.server.life, credentialTimeout)
	defer cancel()
	if len(headers) == 1 {
		scheme, value, _ := bytes.Cut(headers[0], []byte{' '})
		value = bytes.TrimSpace(value)
		switch {
		case authenticator.AcceptsTokens() && bytes.EqualFold(scheme, []byte("bearer")):
			return x.named(authenticator.Token(ctx, x.peer().Member.From, string(value)))
		case authenticator.AcceptsPasswords() && bytes.EqualFold(scheme, []byte("basic")):
			name, password, f := x.server.basic(value)
			if f != nil {
				return nil, f
			}
			return x.named(authenticator.Password(ctx, x.peer().Member.From, name, password))
		}
		x.warnUnchecked()
	}
	return x.certified(authenticator)
}

// certified returns the account of the connection's client certificate, if there is one.
func (x *Request) certified(authenticator *credential.Authenticator) (*credential.Principal, *Fault) {
	shown := x.peer().Certificate
	switch {
	case shown == nil:
		return nil, nil
	case time.Now().After(shown.NotAfter): // it was valid when the connection began
		f := x.server.unauthorized("the client certificate expired at %s", shown.NotAfter.UTC().Format(time.RFC3339))
		f.Close = true
		return nil, f
	case shown.Subject.CommonName == "":
		return nil, x.server.unauthorized("the client certificate has no common name, so it names nobody")
	}
	return authenticator.Certificate(shown.Subject.CommonName), nil
}

// credentialTimeout bounds the check of one credential.
const credentialTimeout = 5 * time.Second

func (x *Request) named(who *credential.Principal, err error) (*credential.Principal, *Fault) {
	switch {
	case err == nil:
		return who, nil
	case errors.Is(err, credential.ErrUnavailable):
		return nil, unavailable(err)
	}
	return nil, x.server.unauthorized("%v", err)
}

func (s *Server) basic(value []byte) (name, password string, f *Fault) {
	text, err := base64.StdEncoding.DecodeString(string(value))
	name, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return "", "", s.unauthorized("the Authorization header is not Basic with name:password in base64")
	}
	return name, password, nil
}

// unauthorized makes the fault of a missing or invalid credential.
func (s *Server) unauthorized(format string, args ...any) *Fault {
	return &Fault{
		Status: fasthttp.StatusUnauthorized, Reason: "credentials", Counted: metric.Identity,
		Message: fmt.Sprintf(format, args...), challenges: s.challenges,
	}
}

const unavailableReason = "unavailable"

// unavailable makes the fault of a request that the API server could not be asked about.
func unavailable(err error) *Fault {
	return &Fault{
		Status: fasthttp.StatusServiceUnavailable, Reason: unavailableReason, Counted: metric.Identity, retryAfter: true,
		Message: err.Error() + ": try again in a moment",
	}
}

// challengesOf returns the values of WWW-Authenticate (RFC 9110, section 11.6.1), one for each
// scheme.
func challengesOf(authenticator *credential.Authenticator) (all []string) {
	if authenticator != nil && authenticator.AcceptsTokens() {
		all = append(all, `Bearer realm="sluice"`)
	}
	if authenticator != nil && authenticator.AcceptsPasswords() {
		all = append(all, `Basic realm="sluice", charset="UTF-8"`)
	}
	return all
}

// hint names the credential that would help a client without one.
func (s *Server) hint(needs metric.Right) string {
	var ways []string
	if s.Authenticator.AcceptsTokens() {
		ways = append(ways, fmt.Sprintf("a bearer token for the audience %q", s.cfg.TokenAudience))
	}
	if s.Authenticator.AcceptsPasswords() {
		ways = append(ways, "a name and a password")
	}
	return fmt.Sprintf("no credential was sent; want %s of who may %s", strings.Join(ways, " or "), needs)
}
