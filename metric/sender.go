package metric

import "net/netip"

// Sender is where samples come from. It is never changed once it is handed out.
type Sender struct {
	// Key tells senders apart, and the holders of one address from each other: it is another one once the address
	// changes hands. Never 0.
	Key uint64
	// Address is where the sample came from; not valid for a Unix socket.
	Address netip.Addr
	// Pod is who has the address; nil: no pod has it alone, or none that is known.
	Pod *Pod
	// Known says that the cluster has told whose the address is: with Pod nil it is a node's, or that of several pods,
	// and nobody's for good. An address that is not known may become a pod's any moment.
	Known bool
	// Account is whom the sender's credential names; nil: it showed none. It alone then says what the sender may, the address
	// does not.
	Principal *Principal
}

// Namespace is the one that the sender is in; empty: none.
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

// Pod is what a sample's way needs to know of a pod. It is never changed once it is handed out.
type Pod struct {
	Namespace, Name, UID string
	// ServiceAccount is the name of the one that the pod runs as.
	ServiceAccount string
	// Created is when the pod was made, in Unix seconds; 0: nobody said. Nothing that came before is of the pod.
	Created int64
	// AboutExternal says that what the pod sends without a claim is not about itself.
	DefaultExternal bool
}

// Object is what a series on the pod describes.
func (p *Pod) Object() Object {
	return Object{Resource: "pods", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
