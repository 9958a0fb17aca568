package identity

import "github.com/sluice-metrics/sluice/metric"

// mayDescribe applies the rules of trust to an object, without looking whether it exists. If the
// answer is not allowed, the right is the one that an account would need; zero if no right would
// help.
func (r *Resolver) mayDescribe(who *sender, verb metric.Verb, o *metric.Object) (rule, metric.Right) {
	if r.config.Trust == Open {
		return allowed, metric.Right{}
	}
	w := r.ruleByTrust(who, o)
	if w == allowed || o.Resource == pods && verb != metric.Get { // no account may change another pod's series
		return w, metric.Right{}
	}
	needs := rightTo(verb, o)
	switch {
	case who.account != nil:
		w = granted(who.account, needs)
	case verb == metric.Get && who.reads != nil:
		needs.Verb, needs.Series = metric.Read, true
		if by := granted(who.reads, needs); by != notGranted {
			w = by
		}
	}
	return w, needs
}

func (r *Resolver) ruleByTrust(who *sender, o *metric.Object) rule {
	inside := r.config.Trust == Namespace && o.Resource != pods
	switch {
	case o.External() && o.Namespace == "":
		if who.writer {
			return allowed
		}
		return clusterWide
	case who.forwarder, who.is(o):
		return allowed
	case who.pod == nil && who.account == nil:
		return untrustedSender
	case inside && who.livesIn(o), inside && o.Namespace != "" && o.Namespace == who.namespace():
		return allowed
	case inside && o.Namespace == "":
		return clusterScoped
	}
	return notOwn
}

// rightTo is the right that an account needs for an object's samples. Samples of a Namespace object
// are in that namespace.
func rightTo(verb metric.Verb, o *metric.Object) metric.Right {
	if o.Resource == namespaces && o.Name != metric.AllObjects {
		return metric.Right{Verb: verb, Namespace: o.Name}
	}
	return metric.Right{Verb: verb, Namespace: o.Namespace, Series: o.Resource == pods}
}

func granted(a *metric.Principal, r metric.Right) rule {
	switch a.Check(r) {
	case metric.Allowed:
		return allowed
	case metric.Denied:
		return notGranted
	}
	return rightUnknown
}

// namespaces is the resource of Namespace objects.
const namespaces = "namespaces"

// May reports whether a sender may push, read or delete the series of an object; the rules are the
// same for all three. The object name metric.AllObjects stands for all objects of the resource in the namespace.
// May returns metric.Applied, metric.Identity or metric.Pending, and a text that explains the last
// two. The right is one that an account would need: it was not granted or, if the answer is
// metric.Pending, nobody has asked for it yet.
func (r *Resolver) May(s *metric.Sender, verb metric.Verb, o metric.Object) (metric.Reason, string, metric.Right) {
	if r.cluster == nil {
		return metric.Applied, "", metric.Right{}
	}
	v := decision{object: o, sender: r.senderOf(s)}
	if !r.permitted(&v, verb) {
		return v.reason, r.explain(&v), v.needs
	}
	return metric.Applied, "", metric.Right{}
}

// Listed reports whether a sender is among the trusted forwarders or the external writers.
func (r *Resolver) Listed(s *metric.Sender) bool {
	w := r.senderOf(s)
	return w.forwarder || w.writer
}

// Needs returns the right that an account would need for a sample to be applied; zero if no right
// would help.
func (r *Resolver) Needs(s *metric.Sample) metric.Right {
	var d metric.Description
	var v decision
	r.decide(s, &d, &v)
	return v.needs
}

// permitted applies mayDescribe to the decision's object and records a rejection.
func (r *Resolver) permitted(v *decision, verb metric.Verb) bool {
	w, needs := r.mayDescribe(&v.sender, verb, &v.object)
	if w == allowed {
		return true
	}
	v.needs = needs
	r.rejectOrWait(w, v)
	return false
}
