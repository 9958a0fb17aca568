package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// ErrUnavailable means that there is no answer now; the client may retry.
var ErrUnavailable = errors.New("unavailable")

// Authority is the cluster's API server.
type Authority interface {
	// Authenticate returns the principal of a token for Sluice; nil means a bad token, and why.
	// Known: the token was good a moment ago, and must not wait behind unknown ones. An error means
	// that the API server did not answer.
	Authenticate(ctx context.Context, token string, known bool) (account *metric.Principal, why string, err error)
	// Authorize reports whether a principal has a right.
	Authorize(context.Context, *metric.Principal, metric.Right) (bool, error)
}

// Config selects the accepted credentials.
type Config struct {
	// BasicAuthFile holds names and passwords; empty: none.
	BasicAuthFile string
	// Tokens accepts bearer tokens. It needs an Authority.
	Tokens bool
	// DescribeError rewrites an error about a setting for the user of the setting; nil: no change.
	DescribeError func(error) error
}

// Authenticator authenticates credentials. It is safe for concurrent use.
type Authenticator struct {
	authority Authority // nil without a cluster: no rights
	log       *slog.Logger
	worded    func(error) error
	tokens    *checker      // nil: not accepted
	passwords *passwords    // nil: not accepted
	asked     chan struct{} // a slot for each request about a right in flight
	metrics   *metrics

	mu          sync.Mutex // guards the fields below
	accounts    map[string]*Principal
	waiting     map[string]chan struct{} // by namespace
	errorLogged time.Time
}

const (
	// maxAccounts limits the cached principals.
	maxAccounts = 4096
	// maxUnknown limits the requests in flight about unknown tokens, maxUnknownEach those from one
	// address. Sixteen addresses leave half of them, and have others wait for a second and a half: the API server is
	// asked about a hundred a second.
	maxUnknown     = 256
	maxUnknownEach = 8
)

// NewAuthenticator reads the file, if there is one. Without a cluster the authority is nil.
func NewAuthenticator(c Config, authority Authority, log *slog.Logger) (*Authenticator, error) {
	d := &Authenticator{authority: authority, log: log, accounts: map[string]*Principal{}, waiting: map[string]chan struct{}{},
		asked: make(chan struct{}, maxAsked), metrics: newMetrics()}
	if d.worded = c.DescribeError; d.worded == nil {
		d.worded = func(err error) error { return err }
	}
	if c.Tokens {
		if authority == nil {
			return nil, errors.New("tokens need the API server of a cluster; there is none")
		}
		d.tokens = newChecker(answerTTL, maxUnknown, maxUnknownEach)
		d.tokens.lookUp = d.askWho
	}
	if c.BasicAuthFile != "" {
		var err error
		if d.passwords, err = newPasswords(c.BasicAuthFile, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Authenticator) AcceptsTokens() bool { return d.tokens != nil }

func (d *Authenticator) AcceptsPasswords() bool { return d.passwords != nil }

// Run reloads the file when it changes, until ctx ends.
func (d *Authenticator) Run(ctx context.Context) {
	if d.passwords != nil {
		d.passwords.follow(ctx)
	}
}

// Token returns the principal of a bearer token. The error is an ErrUnavailable, or says why the
// token is bad.
func (d *Authenticator) Token(ctx context.Context, from netip.Prefix, token string) (*Principal, error) {
	a, err := d.tokens.check(ctx, from, token)
	d.metrics.checked("token", err)
	return a, err
}

// EndNamespace ends the tokens of the service accounts of a namespace that was deleted. They are rejected
// as long as the API server may take them for valid. again: a later namespace has the name already, so
// tokens may be of that one, and the API server is asked anew. Rights in the namespace are asked about anew
// in either case. A nil Authenticator has no tokens.
func (d *Authenticator) EndNamespace(namespace string, again bool) {
	if d == nil {
		return
	}
	end := func(a *Principal) (ended bool) {
		a.forgetNamespace(namespace)
		if a.Namespace == namespace {
			a.ended.Store(true)
		}
		return a.Namespace == namespace
	}
	d.mu.Lock()
	for key, a := range d.accounts {
		if end(a) {
			delete(d.accounts, key)
		}
	}
	delete(d.waiting, namespace)
	d.mu.Unlock()
	until := time.Now()
	if !again {
		until = until.Add(staleFor)
	}
	// Of credentials that are known to be good, others may have taken their accounts' places among those above. No password is of
	// a namespace.
	if d.passwords != nil {
		d.passwords.reject("", until, end)
	}
	if d.tokens == nil {
		return
	}
	d.tokens.reject(fmt.Sprintf("the token's namespace %q was deleted", namespace), until, end)
}

func (d *Authenticator) askWho(ctx context.Context, token string, known bool) (*Principal, string, error) {
	who, why, err := d.authority.Authenticate(ctx, token, known)
	switch {
	case err != nil:
		d.logError("push: the API server cannot be asked about a token", err)
		return nil, "", unavailable("the API server cannot be asked about the token")
	case who == nil:
		return nil, why, nil
	}
	return d.account(*who), "", nil
}

// Password returns the principal of a name and password. Errors are those of Token.
func (d *Authenticator) Password(ctx context.Context, from netip.Prefix, name, password string) (*Principal, error) {
	a, err := d.passwords.check(ctx, from, name+":"+password)
	d.metrics.checked("password", err)
	return a, err
}

// Prefixes of users that the API server does not know by itself.
const (
	BasicUser       = "sluice:basic:"
	CertificateUser = "sluice:cert:"
)

// Certificate is the principal of a verified client certificate.
func (d *Authenticator) Certificate(commonName string) *Principal {
	d.metrics.checked("certificate", nil)
	return d.account(metric.Principal{User: CertificateUser + commonName})
}

// Reading is the principal of a pod's service account, which the pod's address shows: for rights to read alone.
func (d *Authenticator) Reading(s *metric.Sender) *Principal {
	is := s.Reader()
	return d.account(metric.Principal{User: is.User, Groups: is.Groups, Namespace: s.Pod.Namespace, Name: s.Pod.ServiceAccount})
}

// account returns the cached Principal. All attributes that may matter for authorization
// distinguish principals.
func (d *Authenticator) account(is metric.Principal) *Principal {
	is.Rights = nil
	text, err := json.Marshal(is)
	if err != nil { // it contains strings only
		panic("credential: an account cannot be encoded: " + err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[string(text)]
	if a == nil {
		a = newAccount(is, d.waitingLocked(is.Namespace))
		put(d.accounts, string(text), a, maxAccounts)
	}
	return a
}

// waitingLocked returns the slots of a namespace, whose author may have many accounts. Users outside of namespaces share
// none.
func (d *Authenticator) waitingLocked(namespace string) chan struct{} {
	slots := d.waiting[namespace]
	if slots == nil {
		slots = make(chan struct{}, maxAskedEach)
		if namespace != "" {
			d.waiting[namespace] = slots
		}
	}
	return slots
}

// logError logs an error, at most once per second.
func (d *Authenticator) logError(message string, err error) {
	d.mu.Lock()
	due := time.Since(d.errorLogged) >= time.Second
	if due {
		d.errorLogged = time.Now()
	}
	d.mu.Unlock()
	if due {
		d.log.Warn(message, "error", err)
	}
}
