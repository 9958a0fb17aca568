package httpserver

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
	fault   *Fault        // of the last question
}

// What the API server is asked about for one request: a body of a million lines may name as many namespaces.
const (
	maxAskedPerRequest = 32
	askingPerRequest   = 10 * time.Second
)

var errAsksTooMuch = errors.New("this request needs more rights than one is asked about, which is 32: push less at once, or have them granted at the cluster scope")

// sender is who makes the request: whom a credential names, else whoever has the connection's other end. What a header says
// about somebody before that one is not looked at, for anybody can write it.
func (x *Request) Sender() *metric.Sender {
	if x.caller.account == nil {
		return x.origin.Sender(x.conn().Remote)
	}
	if x.caller.sender.Key == 0 {
		x.introduce()
	}
	return &x.caller.sender
}

// introduce makes the account's sender, anew after its rights may have changed.
func (x *Request) introduce() {
	account, pod := x.caller.account, (*metric.Pod)(nil)
	if account.PodUID != "" {
		pod = x.server.pods.PodWithUID(account.PodUID)
	}
	x.caller.sender = account.Sender(x.conn().Remote, pod)
}

// ask has the API server asked about rights of the caller.
func (x *Request) Ask(rights ...metric.Right) *Fault {
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
		err = x.server.Desk.CheckRights(ctx, c.account, rights...)
	}
	if c.fault = nil; err != nil {
		c.fault = unavailable(err)
	}
	x.introduce()
	return c.fault
}

// renew has the API server asked again about what was granted to the caller a while ago. Behind it the sender is another
// one if some of that was taken away, so what the table remembers of it is nobody's.
func (x *Request) renew() {
	if x.caller.account == nil {
		return
	}
	ctx, cancel := context.WithTimeout(x.server.life, askingPerRequest)
	defer cancel()
	x.server.Desk.RenewRights(ctx, x.caller.account)
	x.introduce()
}

// lacks is the right that a sample was not applied for, if the API server has not been asked about it lately; else zero.
func (x *Request) lacks(r metric.Reason, s *metric.Sample) metric.Right {
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
func (x *Request) May(verb metric.Verb, o metric.Object) *Fault {
	if x.server.trust == nil {
		return nil
	}
	for {
		reason, why, needs := x.server.trust.May(x.Sender(), verb, o)
		switch {
		case reason == metric.Applied:
			return nil
		case reason == metric.Pending && x.caller.account != nil && !needs.IsZero():
			if f := x.Ask(needs); f != nil {
				return f
			}
		case reason == metric.Pending:
			return NotYet("%s: come again in a moment", why)
		default:
			return x.forbidden(reason, why, needs)
		}
	}
}

// forbidden is the fault of who may not. Who showed no credential is told which one would help.
func (x *Request) forbidden(r metric.Reason, why string, needs metric.Right) *Fault {
	f := Rejected(r, "%s", why)
	if x.caller.account == nil && !needs.IsZero() && len(x.server.challenges) > 0 {
		f.Status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
		f.Message += "; " + x.server.hint(needs)
	}
	return f
}

// askFirst has the API server asked about what a push to an object needs, so that nothing is read before.
func (x *Request) AskFirst(o metric.Object) *Fault {
	if x.caller.account == nil {
		return nil
	}
	reason, _, needs := x.server.trust.May(x.Sender(), metric.Create, o)
	if reason == metric.Pending && !needs.IsZero() {
		return x.Ask(needs)
	}
	return nil
}

// unasked is the fault of a sample that depends on a right about which the API server could not be asked.
func (x *Request) unasked(s *metric.Sample) *Fault {
	if f := x.caller.fault; f != nil {
		again := *f
		return &again
	}
	return unavailable(errors.New(x.server.explain(s)))
}

// askAll is ask for a number of rights that the protocol limits itself.
func (x *Request) AskAll(rights []metric.Right) *Fault {
	x.caller.asked -= len(rights)
	return x.Ask(rights...)
}

// mayNow is may without a question to the API server: the reason is metric.Pending, with a right, where that would be asked.
func (x *Request) MayNow(verb metric.Verb, o metric.Object) (metric.Reason, metric.Right) {
	reason, _, needs := x.server.trust.May(x.Sender(), verb, o)
	return reason, needs
}

// checksTrust reports whether senders have different rights here: without a cluster, all may do everything.
func (x *Request) ChecksTrust() bool { return x.server.trust != nil }

// looksAtCredentials reports whether requests may show a credential.
func (x *Request) LooksAtCredentials() bool { return x.server.Desk != nil }

// hasAccount reports whether the request's credential names an account.
func (x *Request) HasAccount() bool { return x.caller.account != nil }

// senderName tells senders apart: by account, else by address.
func (x *Request) SenderName() string {
	if account := x.caller.account; account != nil {
		return "account " + account.User
	}
	return x.conn().Remote.String()
}

// forgetSender lets the next use look up the sender again.
func (x *Request) ForgetSender() {
	x.origin.Reset()
	x.caller.sender = metric.Sender{}
}
