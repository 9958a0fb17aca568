package identity

import "github.com/sluice-metrics/sluice/metric"

// sender is the source of a sample, with the rights that the configuration gives it.
type sender struct {
	origin  *metric.Sender // nil: unnamed
	pod     *metric.Pod
	account *metric.Principal // nil: no credential
	// unknown: the cluster view does not know the address yet, or the pod that the credential
	// names.
	unknown           bool
	forwarder, writer bool
}

func (r *Resolver) senderOf(s *metric.Sender) sender {
	if s == nil {
		return sender{}
	}
	w := sender{
		origin: s, pod: s.Pod, account: s.Principal,
		unknown:   s.Pod == nil && !s.Known && s.Address.IsValid(),
		forwarder: r.forwarders.contains(s),
		writer:    r.writers.contains(s),
	}
	if a := s.Principal; a != nil && a.PodUID != "" && w.pod == nil {
		w.pod = r.cluster.PodWithUID(a.PodUID)
		w.unknown = w.pod == nil
	}
	return w
}

// is reports whether the sender is the pod.
func (w *sender) is(o *metric.Object) bool {
	return w.pod != nil && o.Resource == pods && o.Name == w.pod.Name && o.Namespace == w.pod.Namespace &&
		(o.UID == "" || o.UID == w.pod.UID)
}

// namespace returns the sender's namespace; empty: none.
func (w *sender) namespace() string {
	if w.pod != nil {
		return w.pod.Namespace
	}
	if w.account != nil {
		return w.account.Namespace
	}
	return ""
}

// livesIn reports whether the object is the sender's own namespace, which therefore exists.
func (w *sender) livesIn(o *metric.Object) bool {
	return o.Resource == namespaces && o.Name == w.namespace() && o.Name != ""
}
