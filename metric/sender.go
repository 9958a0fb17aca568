package metric

import (
	"fmt"
	"net/netip"
	"time"
)

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
	// Claimed says that the samples name the pod, and nothing else says whose they are: it has the rights of any pod,
	// and none that its address or its account was granted.
	Claimed bool
	// Reused says that another pod had the address within the last 30 s before this one.
	Reused bool
	// Started is the Unix second in which the pod's first container started, or before which none did, as far
	// as that was known when the pod got the address; 0: it was not. Earlier samples are not the pod's.
	Started int64
	// Principal is the identity that the sender's credential names; nil without a credential. If it
	// is set, it alone decides what the sender may do, and the address does not.
	Principal *Principal
	// Reads is the service account of Pod, with its rights to read. Nil: it has none beyond its namespace, or
	// the sender doesn't read.
	Reads *Principal
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

const (
	// clockSlack allows for different clocks: samples of an address's former holder came that much earlier.
	clockSlack = 2 * time.Second
	// createdWithin is the precision of a pod's creation time. If another pod just had the address, samples
	// within this time are not the new pod's: no pod sends in its first second.
	createdWithin = time.Second
)

// Follows reports whether the pod that has the address was created after a moment, or its containers started after
// it: a pod may wait long for a node, and for an address that another one still has. What came at the moment is of
// the previous holder of the address.
func (s *Sender) Follows(at time.Time) bool {
	if s == nil || s.Pod == nil || s.Claimed || s.Pod.Created == 0 { // no other pod has the UID
		return false
	}
	created, started := time.Unix(s.Pod.Created, 0), time.Unix(s.Started, 0)
	if s.Reused {
		created = created.Add(createdWithin)
	} else {
		created, started = created.Add(-clockSlack), started.Add(-clockSlack)
	}
	return at.Before(created) || s.Started != 0 && at.Before(started)
}

// ArrivedBefore reports whether the sample was held, and arrived before a moment of the API server's clock.
func (s *Sample) ArrivedBefore(moment time.Time) bool {
	return s.Arrived != 0 && time.Unix(0, s.Arrived).Before(moment.Add(-clockSlack))
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

// Principal is the authenticated identity that a credential names: a bearer token, a password or a
// client certificate. A Principal is immutable once it is handed out.
type Principal struct {
	// User is the name that the API server knows. UID, Groups and Extra are the other attributes
	// that the API server gets for authorization.
	User, UID string
	Groups    []string
	Extra     map[string][]string
	// Namespace and Name identify a service account; both are empty for other users.
	Namespace, Name string
	// PodUID is the pod that the credential is bound to; empty if it is bound to no pod.
	PodUID string
	// Rights are granted beyond the principal's own namespace. Nil: none.
	Rights Rights
}

// Reader is the user that reads, as the API server knows them. The zero Reader is nobody known, as
// the other side of KEDA's protocol.
type Reader struct {
	User   string
	Groups []string
}

// Reader is the user of the sender's credential, otherwise the service account of its pod.
func (s *Sender) Reader() Reader {
	switch {
	case s == nil:
	case s.Principal != nil:
		return Reader{s.Principal.User, s.Principal.Groups}
	case s.Pod != nil && s.Pod.ServiceAccount != "":
		const accounts = "system:serviceaccounts"
		return Reader{"system:serviceaccount:" + s.Pod.Namespace + ":" + s.Pod.ServiceAccount,
			[]string{accounts, accounts + ":" + s.Pod.Namespace, "system:authenticated"}}
	}
	return Reader{}
}

// Check returns the decision about a right.
func (a *Principal) Check(r Right) Decision {
	if a.Rights == nil {
		return Denied
	}
	return a.Rights.Check(r)
}

// Rights are the rights of a principal, as far as the API server was asked.
type Rights interface {
	// Check neither waits nor allocates.
	Check(Right) Decision
}

// Decision is the known answer about a right.
type Decision uint8

// The decisions. Undecided: the API server was not asked, or the answer is too old.
const (
	Undecided Decision = iota
	Allowed
	Denied
)

// Verb is the operation on samples.
type Verb string

// The verbs, as RBAC spells them.
const (
	Create Verb = "create" // push
	Get    Verb = "get"    // read
	Delete Verb = "delete"
	// Read is to read without a credential. No role that allows get, list and watch of everything includes it: KEDA's
	// operator has such a role, and fetches whatever URL the author of a trigger names.
	Read Verb = "read"
)

// Right permits a verb on the samples of one namespace, except those of pods. With an empty Namespace, it permits
// the verb on cluster-scoped samples and on the samples of every namespace. The zero Right is no right.
type Right struct {
	Verb      Verb
	Namespace string
	// Series is the right to read all series, those of pods included. It implies the right to get samples.
	Series bool
}

func (r Right) IsZero() bool { return r.Verb == "" }

// Wide is the right at the cluster scope, which includes every namespace.
func (r Right) Wide() Right {
	r.Namespace = ""
	return r
}

// Of returns the API group and the resource of the right, as RBAC spells them.
func (r Right) Of() (group, resource string) {
	if r.Series {
		return "inspect.sluice.dev", "series"
	}
	return "sluice.dev", "samples"
}

// String prints the right: create samples.sluice.dev in the namespace "shop".
func (r Right) String() string {
	group, resource := r.Of()
	return fmt.Sprintf("%s %s.%s %s", r.Verb, resource, group, r.where())
}

func (r Right) where() string {
	if r.Namespace == "" {
		return "at the cluster scope"
	}
	return fmt.Sprintf("in the namespace %q", r.Namespace)
}

// Forbidden is the message that the API server, and so kubectl, gives to a user who lacks the
// right.
func (r Right) Forbidden(user string) string {
	group, resource := r.Of()
	return fmt.Sprintf("%s.%s is forbidden: User %q cannot %s resource %q in API group %q %s",
		resource, group, user, r.Verb, resource, group, r.where())
}
