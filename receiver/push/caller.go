package push

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/valyala/fasthttp"
)

// caller is who makes a request with a credential. The zero caller showed none. Without a cluster only known is set.
type caller struct {
	known   bool // it showed a good credential
	account *credential.Principal
	sender  metric.Sender // what the account is to all others; Key 0: not made yet
	asked   int           // rights that the API server was asked about
	until   time.Time     // when asking ends; zero: it has not begun
	fault   *fault        // of the last question
}

// What the API server is asked about for one request: a body of a million lines may name as many namespaces.
const (
	maxAskedPerRequest = 32
	askingPerRequest   = 10 * time.Second
)

var errAsksTooMuch = errors.New("this request needs more rights than one is asked about, which is 32: push less at once, or have them granted at the cluster scope")

// sender is who makes the request: whom a credential names, else whoever has the connection's other end. What a header says
// about somebody before that one is not looked at, for anybody can write it.
func (x *exchange) sender() *metric.Sender {
	if x.caller.account == nil {
		return x.origin.Sender(x.conn().remote)
	}
	if x.caller.sender.Key == 0 {
		x.introduce()
	}
	return &x.caller.sender
}

// introduce makes the account's sender, anew after its rights may have changed.
func (x *exchange) introduce() {
	account, pod := x.caller.account, (*metric.Pod)(nil)
	if account.PodUID != "" {
		pod = x.server.pods.PodWithUID(account.PodUID)
	}
	x.caller.sender = account.Sender(x.conn().remote, pod)
}

// ask has the API server asked about rights of the caller.
func (x *exchange) ask(rights ...metric.Right) *fault {
	c := &x.caller
	if c.until.IsZero() {
		c.until = time.Now().Add(askingPerRequest)
	}
	ctx, cancel := context.WithDeadline(x.server.life, c.until)
	defer cancel()
	err := error(nil)
	if c.asked += len(rights); c.asked > maxAskedPerRequest {
		err = errAsksTooMuch
	} else {
		err = x.server.desk.CheckRights(ctx, c.account, rights...)
	}
	if c.fault = nil; err != nil {
		c.fault = unavailable(err)
	}
	x.introduce()
	return c.fault
}

// renew has the API server asked again about what was granted to the caller a while ago. Behind it the sender is another
// one if some of that was taken away, so what the table remembers of it is nobody's.
func (x *exchange) renew() {
	if x.caller.account == nil {
		return
	}
	ctx, cancel := context.WithTimeout(x.server.life, askingPerRequest)
	defer cancel()
	x.server.desk.RenewRights(ctx, x.caller.account)
	x.introduce()
}

// lacks is the right that a sample was not applied for, if the API server has not been asked about it lately; else zero.
func (x *exchange) lacks(r metric.Reason, s *metric.Sample) metric.Right {
	if x.caller.account == nil || r != metric.Identity && r != metric.Pending {
		return metric.Right{}
	}
	needs := x.server.trust.Needs(s)
	if needs.IsZero() || x.caller.account.Check(needs) != metric.Undecided {
		return metric.Right{}
	}
	return needs
}

// may holds what is done to an object's samples to trust, and has the API server asked where that depends on a right.
func (x *exchange) may(verb metric.Verb, o metric.Object) *fault {
	if x.server.trust == nil {
		return nil
	}
	for {
		reason, why, needs := x.server.trust.May(x.sender(), verb, o)
		switch {
		case reason == metric.Applied:
			return nil
		case reason == metric.Pending && x.caller.account != nil && !needs.IsZero():
			if f := x.ask(needs); f != nil {
				return f
			}
		case reason == metric.Pending:
			return notYet("%s: come again in a moment", why)
		default:
			return x.forbidden(reason, why, needs)
		}
	}
}

// forbidden is the fault of who may not. Who showed no credential is told which one would help.
func (x *exchange) forbidden(r metric.Reason, why string, needs metric.Right) *fault {
	f := refused(r, "%s", why)
	if x.caller.account == nil && !needs.IsZero() && len(x.server.challenges) > 0 {
		f.status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
		f.message += "; " + x.server.hint(needs)
	}
	return f
}

// askFirst has the API server asked about what a push to an object needs, so that nothing is read before.
func (x *exchange) askFirst(o metric.Object) *fault {
	if x.caller.account == nil {
		return nil
	}
	reason, _, needs := x.server.trust.May(x.sender(), metric.Create, o)
	if reason == metric.Pending && !needs.IsZero() {
		return x.ask(needs)
	}
	return nil
}

// unasked is the fault of a sample that depends on a right about which the API server could not be asked.
func (x *exchange) unasked(s *metric.Sample) *fault {
	if f := x.caller.fault; f != nil {
		again := *f
		return &again
	}
	return unavailable(errors.New(x.server.explain(s)))
}
