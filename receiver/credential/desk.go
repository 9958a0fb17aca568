package credential

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// ErrUnavailable is why something cannot be said now: who wants to know may come again.
var ErrUnavailable = errors.New("unavailable")

// Authority is the cluster's API server.
type Authority interface {
	// Who says whom a token names that is meant for us; nil: nobody, and why. Known: it was good a moment ago, and must not
	// wait behind those that were not. An error is that it cannot be asked.
	Authenticate(ctx context.Context, token string, known bool) (account *metric.Principal, why string, err error)
	// May says whether an account has a right.
	Authorize(context.Context, *metric.Principal, metric.Right) (bool, error)
}

// Config says which credentials are looked at.
type Config struct {
	// BasicAuthFile holds names and passwords; empty: no basic authentication.
	BasicAuthFile string
	// Tokens are looked at. It needs an Authority.
	Tokens bool
	// Worded puts an error about a setting into the words of whoever set it; nil: it is left as it is.
	DescribeError func(error) error
}

// Desk is where credentials are shown. It is safe for use by many goroutines.
type Authenticator struct {
	authority Authority // nil: without a cluster, nobody asks for rights
	log       *slog.Logger
	worded    func(error) error
	tokens    *checker // nil: not looked at
	passwords *passwords
	asked     chan struct{} // has a place for each question about a right in flight
	metrics   *metrics

	mu         sync.Mutex // guards what follows
	accounts   map[string]*Principal
	complained time.Time
}

const (
	// maxAccounts bounds what is remembered of who.
	maxAccounts = 4096
	// maxStrangers bounds the questions about tokens in flight, maxStrangersEach those that one address brought.
	maxStrangers     = 64
	maxStrangersEach = 8
)

// NewDesk reads the file, if there is one. Without a cluster the authority is nil.
func NewAuthenticator(c Config, authority Authority, log *slog.Logger) (*Authenticator, error) {
	d := &Authenticator{authority: authority, log: log, accounts: map[string]*Principal{}, asked: make(chan struct{}, maxAsked), metrics: newMetrics()}
	if d.worded = c.DescribeError; d.worded == nil {
		d.worded = func(err error) error { return err }
	}
	if c.Tokens {
		if authority == nil {
			return nil, errors.New("tokens are for the API server of a cluster to check, and there is none")
		}
		d.tokens = newChecker(answerTTL, maxStrangers, maxStrangersEach)
		d.tokens.ask = d.askWho
	}
	if c.BasicAuthFile != "" {
		var err error
		if d.passwords, err = newPasswords(c.BasicAuthFile, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// LooksAtTokens and LooksAtPasswords say which credentials may help.
func (d *Authenticator) AcceptsTokens() bool { return d.tokens != nil }

// LooksAtPasswords is as LooksAtTokens is.
func (d *Authenticator) AcceptsPasswords() bool { return d.passwords != nil }

// Run keeps the file's content up to date until ctx ends.
func (d *Authenticator) Run(ctx context.Context) {
	if d.passwords != nil {
		d.passwords.follow(ctx)
	}
}

// Token says whom a bearer token names. The error is an ErrUnavailable, or says why it is no good.
func (d *Authenticator) Token(ctx context.Context, from netip.Prefix, token string) (*Principal, error) {
	a, err := d.tokens.check(ctx, from, token)
	d.metrics.checked("token", err)
	return a, err
}

func (d *Authenticator) askWho(ctx context.Context, token string, known bool) (*Principal, string, error) {
	who, why, err := d.authority.Authenticate(ctx, token, known)
	switch {
	case err != nil:
		d.complain("push: the API server cannot be asked about a token", err)
		return nil, "", unavailable("the API server cannot be asked about the token")
	case who == nil:
		return nil, why, nil
	}
	return d.account(*who), "", nil
}

// Password says whom a name and its password name. Errors are as Token's.
func (d *Authenticator) Password(ctx context.Context, from netip.Prefix, name, password string) (*Principal, error) {
	a, err := d.passwords.check(ctx, from, name+":"+password)
	d.metrics.checked("password", err)
	return a, err
}

// Prefixes of the users whom the API server does not know by itself.
const (
	BasicUser       = "sluice:basic:"
	CertificateUser = "sluice:cert:"
)

// Certificate is whom a client certificate names that was verified.
func (d *Authenticator) Certificate(commonName string) *Principal {
	d.metrics.checked("certificate", nil)
	return d.account(metric.Principal{User: CertificateUser + commonName})
}

// account is what is remembered of one: all that may matter to who grants rights tells accounts apart.
func (d *Authenticator) account(is metric.Principal) *Principal {
	is.Rights = nil
	text, err := json.Marshal(is)
	if err != nil { // it holds strings alone
		panic("credential: an account cannot be encoded: " + err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[string(text)]
	if a == nil {
		a = newAccount(is)
		put(d.accounts, string(text), a, maxAccounts)
	}
	return a
}

// complain logs what went wrong, at most once a second.
func (d *Authenticator) complain(message string, err error) {
	d.mu.Lock()
	due := time.Since(d.complained) >= time.Second
	if due {
		d.complained = time.Now()
	}
	d.mu.Unlock()
	if due {
		d.log.Warn(message, "error", err)
	}
}
