package identity

import "github.com/sluice-metrics/sluice/metric"

// speaker is a sender with the rights that the configuration gives it.
type speaker struct {
	sender *metric.Sender // nil: nobody said who it is
	pod    *metric.Pod
	// unknown: the cluster has not told yet whose the address is.
	unknown           bool
	forwarder, writer bool
}

func (r *Resolver) speaker(s *metric.Sender) speaker {
	if s == nil {
		return speaker{}
	}
	return speaker{
		sender: s, pod: s.Pod,
		unknown:   s.Pod == nil && !s.Known && s.Address.IsValid(),
		forwarder: r.forwarders.have(s),
		writer:    r.writers.have(s),
	}
}

// is reports whether the speaker is the pod.
func (w *speaker) is(o *metric.Object) bool {
	return w.pod != nil && o.Resource == pods && o.Name == w.pod.Name && o.Namespace == w.pod.Namespace &&
		(o.UID == "" || o.UID == w.pod.UID)
}

// livesIn reports whether the object is the namespace that the speaker is in, which therefore exists.
func (w *speaker) livesIn(o *metric.Object) bool {
	return w.pod != nil && o.Resource == "namespaces" && o.Name == w.pod.Namespace
}

// mayName holds an object against the rules of trust alone: whether it exists is not looked at.
func (r *Resolver) mayName(who *speaker, o *metric.Object) why {
	switch {
	case r.config.Trust == Open:
		return allowed
	case o.External() && o.Namespace == "":
		if who.writer {
			return allowed
		}
		return clusterWide
	case who.forwarder, who.is(o):
		return allowed
	case who.pod == nil:
		return nobody
	case r.config.Trust != Namespace, o.Resource == pods:
		return anothers
	case who.livesIn(o):
		return allowed
	case o.Namespace == "":
		return clusterScoped
	case o.Namespace != who.pod.Namespace:
		return anothers
	}
	return allowed
}

// MayRead reports whether a sender may read and delete the series of an object, by the rules by which it may push
// them. An object named "*" stands for all of its resource in the namespace. The answer is metric.Applied,
// metric.Identity or metric.Pending; the text says why it is not the first.
func (r *Resolver) MayRead(s *metric.Sender, o metric.Object) (metric.Reason, string) {
	if r.cluster == nil {
		return metric.Applied, ""
	}
	v := verdict{object: o, who: r.speaker(s)}
	if w := r.mayName(&v.who, &o); w != allowed {
		r.reject(w, &v)
		return v.reason, r.words(&v)
	}
	return metric.Applied, ""
}
