package push

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

// What Config.Auth may be.
const (
	AuthNone  = "none"
	AuthToken = "token"
)

// newDesk makes what looks at credentials; nil: nothing does.
func newDesk(cfg Config, parts Parts) (*credential.Authenticator, error) {
	if cfg.Auth != AuthToken && cfg.BasicAuthFile == "" && cfg.TLSClientCAFile == "" {
		return nil, nil
	}
	return credential.NewAuthenticator(credential.Config{Tokens: cfg.Auth == AuthToken, BasicAuthFile: cfg.BasicAuthFile, DescribeError: parts.Worded}, parts.Authority, parts.Logger)
}

// Pods knows the cluster's pods.
type Pods interface {
	// PodWithUID returns the pod that lives, or nil.
	PodWithUID(uid string) *metric.Pod
}

// authenticate finds out whom the request's credential names, if it shows one. One that is shown must be good. What this
// server does not look at is as if it were not there: Pushgateway clients often send a name and a password to whom asks for
// none.
func (x *exchange) authenticate() *fault {
	desk := x.server.desk
	if desk == nil {
		return nil
	}
	who, f := x.shown(desk)
	x.caller.known = f == nil && who != nil
	switch {
	case f != nil:
		return f
	case who == nil && x.server.trust == nil && desk.AcceptsPasswords():
		return x.server.unauthorized("this server asks for a name and a password, and none was sent")
	case x.server.trust != nil: // else who has a credential may all
		x.caller.account = who
	}
	return nil
}

func (x *exchange) shown(desk *credential.Authenticator) (*credential.Principal, *fault) {
	headers := x.http.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	if len(headers) > 1 {
		f := badRequest("there are %d Authorization headers, but may be 1", len(headers))
		f.uncounted = true
		return nil, f
	}
	ctx, cancel := context.WithTimeout(x.server.life, credentialTimeout)
	defer cancel()
	if len(headers) == 1 {
		scheme, value, _ := bytes.Cut(headers[0], []byte{' '})
		value = bytes.TrimSpace(value)
		switch {
		case desk.AcceptsTokens() && bytes.EqualFold(scheme, []byte("bearer")):
			return x.named(desk.Token(ctx, x.conn().member.From, string(value)))
		case desk.AcceptsPasswords() && bytes.EqualFold(scheme, []byte("basic")):
			name, password, f := x.server.basic(value)
			if f != nil {
				return nil, f
			}
			return x.named(desk.Password(ctx, x.conn().member.From, name, password))
		}
	}
	return x.certified(desk)
}

// certified is whom the connection's client certificate names, if there is one.
func (x *exchange) certified(desk *credential.Authenticator) (*credential.Principal, *fault) {
	shown := x.conn().certificate
	switch {
	case shown == nil:
		return nil, nil
	case time.Now().After(shown.NotAfter): // it was good when the connection began
		f := x.server.unauthorized("the client certificate expired at %s", shown.NotAfter.UTC().Format(time.RFC3339))
		f.close = true
		return nil, f
	case shown.Subject.CommonName == "":
		return nil, x.server.unauthorized("the client certificate has no common name, so it names nobody")
	}
	return desk.Certificate(shown.Subject.CommonName), nil
}

// credentialTimeout bounds the wait for one credential to be checked.
const credentialTimeout = 5 * time.Second

func (x *exchange) named(who *credential.Principal, err error) (*credential.Principal, *fault) {
	switch {
	case err == nil:
		return who, nil
	case errors.Is(err, credential.ErrUnavailable):
		return nil, unavailable(err)
	}
	return nil, x.server.unauthorized("%v", err)
}

func (s *Server) basic(value []byte) (name, password string, f *fault) {
	text, err := base64.StdEncoding.DecodeString(string(value))
	name, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return "", "", s.unauthorized("the Authorization header is not Basic with name:password in base64")
	}
	return name, password, nil
}

// unauthorized is the fault of who has to show a credential, or showed one that is no good.
func (s *Server) unauthorized(format string, args ...any) *fault {
	return &fault{
		status: fasthttp.StatusUnauthorized, reason: "credentials", counted: metric.Identity,
		message: fmt.Sprintf(format, args...), challenges: s.challenges,
	}
}

const unavailableReason = "unavailable"

// unavailable is the fault of a request about which the API server could not be asked.
func unavailable(err error) *fault {
	return &fault{
		status: fasthttp.StatusServiceUnavailable, reason: unavailableReason, counted: metric.Identity, retryAfter: true,
		message: err.Error() + ": come again in a moment",
	}
}

// challengesOf are the values of WWW-Authenticate (RFC 9110, section 11.6.1): one for each scheme that may help.
func challengesOf(desk *credential.Authenticator) (all []string) {
	if desk != nil && desk.AcceptsTokens() {
		all = append(all, `Bearer realm="sluice"`)
	}
	if desk != nil && desk.AcceptsPasswords() {
		all = append(all, `Basic realm="sluice", charset="UTF-8"`)
	}
	return all
}

// hint says which credential would help who shows none.
func (s *Server) hint(needs metric.Right) string {
	var ways []string
	if s.desk.AcceptsTokens() {
		ways = append(ways, fmt.Sprintf("a bearer token for the audience %q", s.cfg.TokenAudience))
	}
	if s.desk.AcceptsPasswords() {
		ways = append(ways, "a name and a password")
	}
	return fmt.Sprintf("no credential was sent; want %s of who may %s", strings.Join(ways, " or "), needs)
}
