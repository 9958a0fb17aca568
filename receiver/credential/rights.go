package credential

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// answerTTL is how long the API server's word on a token or a right is kept.
	answerTTL = 10 * time.Second
	// askTimeout bounds one question.
	askTimeout = 5 * time.Second
	// maxAsked bounds the questions about rights in flight, maxAskedEach those about one account: they wait for each other.
	maxAsked     = 64
	maxAskedEach = 8
)

// Ask asks the API server whether an account has rights, unless that is known. It returns an ErrUnavailable if that
// cannot be said of all.
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

// askOne asks about a right, and about the one at the cluster scope, which may spare many questions.
func (d *Authenticator) askOne(ctx context.Context, a *Principal, r metric.Right) error {
	wide := metric.Right{Verb: r.Verb}
	if r == wide || a.Check(wide) != metric.Undecided {
		return d.question(ctx, a, r)
	}
	var both sync.WaitGroup
	both.Go(func() { _ = d.question(ctx, a, wide) }) // nobody needs it
	err := d.question(ctx, a, r)
	both.Wait()
	return err
}

// question asks once for all who want to know it of one account.
func (d *Authenticator) question(ctx context.Context, a *Principal, r metric.Right) error {
	answered := a.asking.DoChan(string(r.Verb)+" "+r.Namespace, func() (any, error) {
		own, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		return nil, d.review(own, a, r)
	})
	select {
	case got := <-answered:
		return got.Err
	case <-ctx.Done():
		return unavailable("it was not answered in time whether User %q may %s", a.User, r)
	}
}

func (d *Authenticator) review(ctx context.Context, a *Principal, r metric.Right) error {
	for _, places := range []chan struct{}{a.waiting, d.asked} {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
			return unavailable("too many ask what they may: it is not known whether User %q may %s", a.User, r)
		}
	}
	began := time.Now()
	granted, err := d.authority.Authorize(ctx, &a.Principal, r)
	d.metrics.asked(granted, err)
	if err != nil {
		d.complain("push: the API server cannot be asked about a right", err)
		return unavailable("the API server cannot be asked whether User %q may %s", a.User, r)
	}
	a.learn(r, answer{granted, began.Add(answerTTL)})
	return nil
}

// Renew asks again about what was granted to an account for pushing, if that is too long ago. What cannot be asked is
// forgotten: the account is another sender then, and each of its samples has to be decided anew.
func (d *Authenticator) RenewRights(ctx context.Context, a *Principal) {
	for rights := a.overdue(); len(rights) > 0; rights = a.overdue() {
		if err := d.CheckRights(ctx, a, rights...); err != nil {
			a.forget(rights...)
			return
		}
	}
}

// Faults that are the server's to mend and the client's to wait for are ErrUnavailable; all others are the credential's.
type unavailableError struct{ text string }

func (e *unavailableError) Error() string { return e.text }

// Is implements errors.Is.
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

func unavailable(format string, args ...any) error {
	return &unavailableError{fmt.Sprintf(format, args...)}
}
