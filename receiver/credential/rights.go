package credential

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// answerTTL is how long an answer of the API server about a token or a right is valid.
	answerTTL = 10 * time.Second
	// staleFor is longer than the API server may take the token of a deleted account for valid: it caches
	// for 10 s.
	staleFor = 15 * time.Second
	// askTimeout limits one request.
	askTimeout = 5 * time.Second
	// maxAsked limits the requests about rights in flight, maxAskedEach those about the accounts of one namespace;
	// further ones wait.
	maxAsked     = 64
	maxAskedEach = 8
)

// CheckRights asks the API server whether a principal has rights, unless that is cached. It returns
// an ErrUnavailable if an answer is missing.
func (d *Authenticator) CheckRights(ctx context.Context, a *Principal, rights ...metric.Right) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	faults := make([]error, len(rights))
	var all sync.WaitGroup
	for i, r := range rights {
		if a.Check(r) != metric.Undecided {
			continue
		}
		all.Go(func() { faults[i] = d.askOne(ctx, a, r) })
	}
	all.Wait()
	for i, r := range rights {
		if faults[i] != nil && a.Check(r) == metric.Undecided {
			return faults[i]
		}
	}
	return nil
}

// askOne asks about a right, and about the right at the cluster scope, which may save many
// requests.
func (d *Authenticator) askOne(ctx context.Context, a *Principal, r metric.Right) error {
	wide := r.Wide()
	if r == wide || a.Check(wide) != metric.Undecided {
		return d.question(ctx, a, r)
	}
	var both sync.WaitGroup
	both.Go(func() { _ = d.question(ctx, a, wide) }) // its error does not matter
	err := d.question(ctx, a, r)
	both.Wait()
	return err
}

// question sends one request for all concurrent callers with the same question.
func (d *Authenticator) question(ctx context.Context, a *Principal, r metric.Right) error {
	answered := a.asking.DoChan(r.String(), func() (any, error) {
		own, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		return nil, d.review(own, a, r)
	})
	select {
	case got := <-answered:
		return got.Err
	case <-ctx.Done():
		return unavailable("the API server did not answer in time whether User %q may %s", a.User, r)
	}
}

func (d *Authenticator) review(ctx context.Context, a *Principal, r metric.Right) error {
	for _, places := range []chan struct{}{a.waiting, d.asked} {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
			return unavailable("the limit of concurrent questions about rights is reached; cannot tell whether User %q may %s",
				a.User, r)
		}
	}
	defer a.answered(r)
	for learned := false; !learned; {
		began := time.Now()
		a.ask(r)
		granted, err := d.authority.Authorize(ctx, &a.Principal, r)
		d.metrics.asked(granted, err)
		if err != nil {
			d.logError("push: the API server cannot be asked about a right", err)
			return unavailable("the API server cannot be asked whether User %q may %s", a.User, r)
		}
		learned = a.learn(r, answer{granted, began.Add(answerTTL)})
	}
	return nil
}

// RenewRights asks again about granted rights to push whose answers have expired. Rights without an
// answer are dropped: the principal is then a different sender, and its samples are decided anew.
func (d *Authenticator) RenewRights(ctx context.Context, a *Principal) {
	for rights := a.expiredRights(); len(rights) > 0; rights = a.expiredRights() {
		if err := d.CheckRights(ctx, a, rights...); err != nil {
			a.forget(rights...)
			return
		}
	}
}

// unavailableError is an ErrUnavailable, which the server must fix and the client can wait for. All
// other errors are about the credential.
type unavailableError struct{ text string }

func (e *unavailableError) Error() string { return e.text }

// Is implements errors.Is.
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

func unavailable(format string, args ...any) error {
	return &unavailableError{fmt.Sprintf(format, args...)}
}
