package metric

import "net/netip"

// Sender is the source of samples. It is immutable once it is handed out.
type Sender struct {
	// Key distinguishes senders, and successive holders of one address: it changes when the address
	// changes hands. It is never 0.
	Key uint64
	// Address is the source address; invalid for a Unix socket.
	Address netip.Addr
	// Pod is the only holder of the address; nil if no pod is known to hold it alone.
	Pod *Pod
	// Known says that the cluster view knows the holder of the address. With a nil Pod, that is a
	// node or several pods. An unknown address may become a pod's at any moment.
	Known bool
	// Reused says that another pod had the address within the last 30 s before this one.
	Reused bool
	// Principal is the identity that the sender's credential names; nil without a credential. If it
	// is set, it alone decides what the sender may do, and the address does not.
	Principal *Principal
}

// LocalKey is the bit of Sender.Key that is set in keys made by receivers, and in no key made by
// the cluster view.
const LocalKey = 1 << 63

// String is the sender's name in logs: the address, or "unix".
func (s *Sender) String() string {
	if s == nil || !s.Address.IsValid() {
		return "unix"
	}
	return s.Address.String()
}

// Namespace is the sender's namespace, or empty.
func (s *Sender) Namespace() string {
	switch {
	case s == nil:
		return ""
	case s.Pod != nil:
		return s.Pod.Namespace
	case s.Principal != nil:
		return s.Principal.Namespace
	}
	return ""
}

// Pod holds the attributes of a pod that the path of a sample needs. It is immutable once it is
// handed out.
type Pod struct {
	Namespace, Name, UID string
	// ServiceAccount is the name of the pod's service account.
	ServiceAccount string
	// Created is the pod's creation time in Unix seconds; 0 if unknown. Earlier samples are not the
	// pod's.
	Created int64
	// DefaultExternal makes the pod's samples without a claim external, not metrics of the pod.
	DefaultExternal bool
}

// Object is the object that the pod's own series describe.
func (p *Pod) Object() Object {
	return Object{Resource: "pods", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
