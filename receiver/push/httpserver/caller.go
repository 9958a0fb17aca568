package httpserver

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/valyala/fasthttp"
)

// caller is the account of a request with a credential. The zero caller has no credential. Without
// a cluster only known is set.
type caller struct {
	known   bool // the credential is valid
	renewed bool // see renew
	account *credential.Principal
	reading *credential.Principal // of the pod that reads without a credential
	sender  metric.Sender         // of the account, or of the pod that reads; Key 0: not made yet
	asked   int                   // rights that the API server was asked for
	until   time.Time             // the deadline for asking; zero: no question yet
	fault   *Fault                // of the last question to the API server
}

// Limits of the questions to the API server for one request. A body of a million lines may name a
// million namespaces.
const (
	maxAskedPerRequest = 32
	askingPerRequest   = 10 * time.Second
)

var errAsksTooMuch = errors.New("this request needs more rights than one is asked about, which is 32: push less at once, or have them granted at the cluster scope")

// Sender returns the sender of the request: the account of its credential, otherwise the pod of its
// connection's remote address. Headers that claim another address are ignored, because any client
// can write them.
func (x *Request) Sender() *metric.Sender {
	c := &x.caller
	if c.account != nil {
		if c.sender.Key == 0 {
			x.introduce()
		}
		return &c.sender
	}
	s := x.origin.Sender(x.peer().Remote)
	if x.isReferred() && s != nil {
		c.sender, c.reading = *s, nil
		c.sender.Claimed = true // the rights of any pod
		return &c.sender
	}
	if !x.mayRead(s) {
		return s
	}
	if c.sender.Key != s.Key {
		c.reading = x.server.Authenticator.Reading(s)
		c.sender, c.sender.Reads = *s, &c.reading.Principal
	}
	return &c.sender
}

// isReferred reports whether another page led a sender without a credential here. A Prometheus
// follows the redirects of its targets, and stores what it gets under their labels. Go's clients name
// the page in Referer, unless it was https and this port is not (net/http refererForURL).
func (x *Request) isReferred() bool {
	return x.Method() == fasthttp.MethodGet && !x.HasAccount() && len(x.HTTP.Request.Header.Referer()) > 0
}

// mayRead reports whether a sender without a credential reads by the rights of its pod's service account.
func (x *Request) mayRead(s *metric.Sender) bool {
	return x.Method() == fasthttp.MethodGet && x.server.trust != nil && x.server.Authenticator != nil &&
		s != nil && s.Pod != nil && s.Pod.ServiceAccount != ""
}

// asking is the principal whose rights the API server is asked about; nil: there is none.
func (x *Request) asking() *credential.Principal {
	if x.caller.account != nil {
		return x.caller.account
	}
	x.Sender()
	return x.caller.reading
}

// introduce makes the account's sender, again after its rights may have changed.
func (x *Request) introduce() {
	account, pod := x.caller.account, (*metric.Pod)(nil)
	if account.PodUID != "" {
		pod = x.server.pods.PodWithUID(account.PodUID)
	}
	x.caller.sender = account.Sender(x.peer().Remote, pod)
}

// Ask asks the API server for rights of the caller.
func (x *Request) Ask(rights ...metric.Right) *Fault {
	c := &x.caller
	if c.until.IsZero() {
		c.until = time.Now().Add(askingPerRequest)
	}
	ctx, cancel := context.WithDeadline(x.context(), c.until)
	defer cancel()
	err := x.leavePlace()
	if err == nil {
		c.asked += len(rights)
	}
	switch {
	case err != nil:
	case c.asked > maxAskedPerRequest:
		err = errAsksTooMuch
	default:
		err = x.server.Authenticator.CheckRights(ctx, x.asking(), rights...)
	}
	if c.fault = nil; err != nil {
		c.fault = unavailable(err)
	}
	if c.account != nil {
		x.introduce()
	}
	return c.fault
}

// renew asks the API server again for rights that were granted a while ago. If any was revoked, the
// sender gets a new key, so that nothing the table remembers of the old sender applies to it. It does so once.
func (x *Request) renew() {
	if x.caller.account == nil || x.caller.renewed {
		return
	}
	x.caller.renewed = true
	ctx, cancel := context.WithTimeout(x.context(), askingPerRequest)
	defer cancel()
	x.server.Authenticator.RenewRights(ctx, x.caller.account)
	x.introduce()
}

// lacks returns the right that a sample needs, if the API server was not asked for it lately;
// otherwise the zero Right.
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

// May checks that the sender may do something to an object's series. It asks the API server if the
// decision depends on a right.
func (x *Request) May(verb metric.Verb, o metric.Object) *Fault {
	if x.server.trust == nil {
		return nil
	}
	for {
		reason, why, needs := x.server.trust.May(x.Sender(), verb, o)
		switch {
		case reason == metric.Applied:
			return nil
		case reason == metric.Pending && !needs.IsZero() && x.asking() != nil:
			if f := x.Ask(needs); f != nil {
				return f
			}
		case reason == metric.Pending:
			return NotYet("%s: try again in a moment", why)
		default:
			return x.forbidden(reason, why, needs)
		}
	}
}

// forbidden makes the fault of a sender without the right. Without a credential, the fault names
// one that would help, or the right that a pod needs to read.
func (x *Request) forbidden(r metric.Reason, why string, needs metric.Right) *Fault {
	f := Rejected(r, "%s", why)
	if needs.Series && x.caller.reading != nil {
		f.Message += "; " + needs.Forbidden(x.caller.reading.User)
	}
	if x.isReferred() {
		f.Message += "; the request has a Referer: without a credential, it may read what any pod of its namespace may"
	}
	if x.caller.account == nil && !needs.IsZero() && len(x.server.challenges) > 0 {
		f.Status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
		f.Message += "; " + x.server.hint(needs)
	}
	return f
}

// AskFirst asks the API server for the right to push to an object before the body is read.
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

// unasked makes the fault of a sample that needs a right which the API server could not be asked
// for.
func (x *Request) unasked(s *metric.Sample) *Fault {
	if f := x.caller.fault; f != nil {
		again := *f
		return &again
	}
	return unavailable(errors.New(x.server.explain(s)))
}

// mostAskedToList bounds the rights that the API server is asked about for one list, beside those at the
// cluster scope. A list that needs more has only what is known to be allowed.
const mostAskedToList = 128

// AskToList asks the API server for the rights that the sender needs for a list of objects: first for those at the
// cluster scope, which include the others. MayNow then decides. If the API server does not answer, a pod without a
// credential has what it may read without a right.
func (x *Request) AskToList(verb metric.Verb, objects iter.Seq[metric.Object]) *Fault {
	if !x.ChecksTrust() || verb != metric.Get && !x.HasAccount() {
		return nil
	}
	wide := map[metric.Right]bool{}
	for right := range x.lacking(verb, objects) {
		wide[right.Wide()] = true
	}
	f := x.askAll(wide)
	if lacking := x.lacking(verb, objects); f == nil && len(lacking) <= mostAskedToList {
		f = x.askAll(lacking)
	}
	if !x.HasAccount() {
		return nil
	}
	return f
}

// lacking returns the rights that the API server was not asked for lately.
func (x *Request) lacking(verb metric.Verb, objects iter.Seq[metric.Object]) map[metric.Right]bool {
	all := map[metric.Right]bool{}
	for o := range objects {
		if reason, needs := x.MayNow(verb, o); reason == metric.Pending && !needs.IsZero() && x.asking() != nil {
			all[needs] = true
		}
	}
	return all
}

// askAll is Ask for rights that do not count for the request's limit.
func (x *Request) askAll(rights map[metric.Right]bool) *Fault {
	if len(rights) == 0 {
		return nil
	}
	x.caller.asked -= len(rights)
	return x.Ask(slices.Collect(maps.Keys(rights))...)
}

// MayNow is May without asking the API server: the reason is metric.Pending, with the right, where
// May would ask.
func (x *Request) MayNow(verb metric.Verb, o metric.Object) (metric.Reason, metric.Right) {
	reason, _, needs := x.server.trust.May(x.Sender(), verb, o)
	return reason, needs
}

// ChecksTrust reports whether senders have different rights. Without a cluster every sender may do
// everything.
func (x *Request) ChecksTrust() bool { return x.server.trust != nil }

// ChecksCredentials reports whether requests may have a credential.
func (x *Request) ChecksCredentials() bool {
	return len(x.server.challenges) > 0 || x.server.cfg.TLSClientCAFile != ""
}

// MayBecomeKnown reports whether the sender is an address that may become a pod's at any moment. An
// address that the configuration lists says enough by itself: it may be outside of the cluster.
func (x *Request) MayBecomeKnown() bool {
	s := x.Sender()
	unknown := s == nil || s.Pod == nil && s.Principal == nil && !s.Known && s.Address.IsValid()
	return unknown && !x.server.trust.Listed(s)
}

// HasAccount reports whether the request's credential names an account.
func (x *Request) HasAccount() bool { return x.caller.account != nil }

// SenderName identifies the sender by account, otherwise by pod or address. The next holder of the name, or of
// the address, is another sender.
func (x *Request) SenderName() string {
	if account := x.caller.account; account != nil {
		return "account " + account.User + " " + account.UID
	}
	name := x.peer().Remote.String()
	if s := x.Sender(); s != nil && s.Pod != nil {
		name += " " + s.Pod.UID
	}
	return name
}

// From is the address that limits count the request for.
func (x *Request) From() netip.Prefix { return x.peer().Member.From }

// ShareName names all senders of a namespace, whose author may have many accounts and pods, or else the sender.
func (x *Request) ShareName() string {
	if namespace := x.Sender().Namespace(); namespace != "" {
		return "namespace " + namespace
	}
	return x.SenderName()
}

// checkHolder checks that the connection is of the pod that has its address now: a process that once had the
// address neither pushes nor reads as the next holder. inFlight: the pod must still have it.
func (x *Request) checkHolder(inFlight bool) *Fault {
	if x.caller.account != nil {
		if x.caller.account.Ended() {
			return changedHands("the namespace of its token was deleted")
		}
		return nil
	}
	c := x.peer()
	s, holder := x.origin.Sender(c.Remote), c.Holder.Load()
	switch {
	case s == nil, s.Pod == nil && (holder == nil || !inFlight):
	case holder == nil && !s.Follows(c.Accepted):
		c.Holder.Store(&s.Pod.UID)
	case holder == nil:
		return changedHands("its address was another pod's when it began")
	case s.Pod == nil || s.Pod.UID != *holder:
		return changedHands("its address is not that pod's any more which sent the first of it")
	}
	return nil
}

// CheckSender looks the sender up again, and checks that it is the one of before.
func (x *Request) CheckSender() *Fault {
	x.origin.Reset()
	return x.checkHolder(true)
}

// changedHands makes the fault of a request whose sender has ended. One that began early in the life of the next
// sender may be sent again.
func changedHands(why string) *Fault {
	f := NotYet("the sender ended while the connection was open: %s; send it again", why)
	f.Close = true
	return f
}

// ForgetSender makes the next Sender look it up again.
func (x *Request) ForgetSender() {
	x.origin.Reset()
	x.caller.sender = metric.Sender{}
}

// checkOrigin rejects requests that a web page makes the browser on this machine send. Without it,
// any page that somebody opens could push, read and delete. It checks only requests that come from
// this machine without a credential.
//
// A page cannot set Sec-Fetch-Site and Origin (Fetch Metadata,
// https://www.w3.org/TR/fetch-metadata/). With DNS rebinding, where a page's own name resolves to
// 127.0.0.1, both are as they should be, but Host has that name.
func (x *Request) checkOrigin() *Fault {
	if remote := x.peer().Remote; !remote.IsLoopback() {
		return nil
	}
	header := &x.HTTP.Request.Header
	host, origin := x.HTTP.URI().Host(), header.Peek(fasthttp.HeaderOrigin) // an absolute target has a host, too
	other := len(origin) > 0 && !isOriginOf(origin, host)
	switch site := string(header.Peek("Sec-Fetch-Site")); {
	case site == "cross-site", site != "same-origin" && site != "none" && other:
		f := Rejected(metric.Identity, "a web page of another origin must not call this port (Sec-Fetch-Site %q, Origin %q): call it from outside of a browser, or with a credential", site, Clip(origin))
		f.Reason = "origin"
		return f
	case x.server.checksHosts && !x.server.cfg.takesHost(string(host)):
		f := Rejected(metric.Identity, "Host is %q; must be localhost, an IP address or one of push-allowed-hosts, unless a credential is shown: a web page could reach this port by DNS rebinding", Clip(host))
		f.Reason = "host"
		return f
	}
	return nil
}

// checksHosts reports whether requests from this machine must have a known Host. In a cluster they
// need not: a sidecar forwards, from 127.0.0.1, requests that were sent to the name of the Service.
func checksHosts(listener net.Addr, inCluster bool) bool {
	tcp, ok := listener.(*net.TCPAddr)
	return !inCluster || ok && tcp.IP.IsLoopback()
}

// isOriginOf reports whether an origin, scheme://host[:port], is that of a host[:port].
func isOriginOf(origin, host []byte) bool {
	_, authority, ok := bytes.Cut(origin, []byte("://"))
	return ok && bytes.EqualFold(authority, host)
}

// takesHost reports whether a host is this machine, or one of AllowedHosts.
func (c *Config) takesHost(host string) bool {
	name := config.HostName(host)
	return config.IsThisMachine(host) || slices.ContainsFunc(c.AllowedHosts,
		func(allowed string) bool { return strings.EqualFold(allowed, name) })
}
