package metric

import "fmt"

// Account is whom a credential names: a bearer token, a password, a client certificate. It is never changed once it is
// handed out.
type Principal struct {
	// User is the name that the API server knows, with the rest of what it is told of who asks.
	User, UID string
	Groups    []string
	Extra     map[string][]string
	// Namespace and Name are those of a service account; empty for all others.
	Namespace, Name string
	// PodUID is of the pod that alone may show the credential; empty: it is bound to none.
	PodUID string
	// Rights are what was granted to the account beyond its own namespace. Nil: nothing.
	Rights Rights
}

// May says whether a right was granted.
func (a *Principal) Check(r Right) Decision {
	if a.Rights == nil {
		return Denied
	}
	return a.Rights.Check(r)
}

// Rights are an account's, as far as the cluster was asked.
type Rights interface {
	// May neither waits nor allocates.
	Check(Right) Decision
}

// Grant is what is known of a right.
type Decision uint8

// The grants. Unasked: nobody asked, or it is too long ago to be relied on.
const (
	Undecided Decision = iota
	Allowed
	Denied
)

// Verb is what is done with samples.
type Verb string

// The verbs, as RBAC spells them.
const (
	Create Verb = "create" // push
	Get    Verb = "get"    // read
	Delete Verb = "delete"
)

// What rights are to, as RBAC spells it.
const (
	RightsGroup    = "sluice.dev"
	RightsResource = "samples"
)

// Right is to do something with the samples of a namespace; of none: with what is in no namespace, and with all that is in
// any. The zero Right is none.
type Right struct {
	Verb      Verb
	Namespace string
}

// IsZero reports whether there is no right.
func (r Right) IsZero() bool { return r.Verb == "" }

// String is the right in words: create samples.sluice.dev in the namespace "shop".
func (r Right) String() string {
	return fmt.Sprintf("%s %s.%s %s", r.Verb, RightsResource, RightsGroup, r.where())
}

func (r Right) where() string {
	if r.Namespace == "" {
		return "at the cluster scope"
	}
	return fmt.Sprintf("in the namespace %q", r.Namespace)
}

// Forbidden is how the API server, and so kubectl, words that a user lacks the right.
func (r Right) Forbidden(user string) string {
	return fmt.Sprintf("%s.%s is forbidden: User %q cannot %s resource %q in API group %q %s",
		RightsResource, RightsGroup, user, r.Verb, RightsResource, RightsGroup, r.where())
}
