package identity

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// why is the rule that a sample was refused by, or waits for.
type rule uint8

const (
	allowed         rule = iota
	badClaim             // it cannot be read
	predatesPod          // it came before its sender's pod was made
	noNamespace          // it names none, and neither does the sender
	untrustedSender      // the sender is no pod and no forwarder
	notOwn               // it is of another pod, or of another namespace
	clusterScoped        // the object is in no namespace
	clusterWide          // the external is in no namespace
	missingObject        // the object does not exist
	unwatchedKind        // nobody can say whether it exists
	notGranted           // the account lacks the right
	rightUnknown         // pending: nobody knows whether it has it
	unknownAddress       // pending
	unknownPod           // pending
	unsynced             // pending
)

// Explain says why a sample is refused, or pending, for whoever sent it. It decides anew, so it is for answers and
// logs that are written, not for each sample.
func (r *Resolver) Explain(s *metric.Sample) string {
	var d metric.Description
	var v decision
	r.decide(s, &d, &v)
	return r.explain(&v)
}

func (r *Resolver) explain(v *decision) string {
	subject := fmt.Sprintf("%q", v.object.String())
	if v.object.External() && v.object.Namespace == "" {
		subject = "a cluster-wide external"
	}
	if v.uid != "" {
		subject = fmt.Sprintf("the pod with UID %q", v.uid)
	}
	switch v.rule {
	case badClaim:
		return fmt.Sprintf("the claim in %s cannot be read: %v", ObjectLabel, v.err)
	case predatesPod:
		return fmt.Sprintf("it came before %s was made, from the address that this pod has now", v.sender.describe())
	case noNamespace:
		return fmt.Sprintf(`%s: say the namespace, in the label "namespace": %s is in none`, subject, v.sender.describe())
	case untrustedSender:
		return fmt.Sprintf("%s: %s is the address of no pod alone and no trusted forwarder's, so it may speak of nothing", subject, v.sender.describe())
	case notOwn:
		return fmt.Sprintf("%s: this sender is %s and may speak of %s", subject, v.sender.describe(), r.trustedScope())
	case clusterScoped:
		return fmt.Sprintf("%s is in no namespace: only trusted forwarders may speak of it, and this sender, %s, is none", subject, v.sender.describe())
	case clusterWide:
		return fmt.Sprintf("%s may be written by listed writers only, and this sender, %s, is none: say a namespace, as in external/shop", subject, v.sender.describe())
	case missingObject:
		return fmt.Sprintf("there is no %s", subject)
	case unwatchedKind:
		return fmt.Sprintf("%s: nobody can say whether it exists, for objects of its kind are not watched: want the kind listed in object-kinds", subject)
	case notGranted:
		return fmt.Sprintf("%s: %s", subject, v.needs.Forbidden(v.sender.account.User))
	case rightUnknown:
		return fmt.Sprintf("%s: it is not known yet whether User %q may %s", subject, v.sender.account.User, v.needs)
	case unknownAddress:
		if v.sender.account != nil {
			return fmt.Sprintf("the pod that the token of %s names is not known yet", v.sender.describe())
		}
		return fmt.Sprintf("%s is not known as the address of a pod yet", v.sender.describe())
	case unsynced:
		return fmt.Sprintf("%s is not known yet, for the cluster has not been read whole", subject)
	case unknownPod:
		return fmt.Sprintf("%s is not known yet", subject)
	}
	return "nothing is wrong with it any more: send it again"
}

// scope is what a pod may speak of.
func (r *Resolver) trustedScope() string {
	if r.config.Trust == Namespace {
		return "itself, and of existing objects other than pods and externals of its own namespace"
	}
	return "itself only"
}

// name is how a message calls the speaker.
func (w *sender) describe() string {
	switch {
	case w.pod != nil:
		return fmt.Sprintf("%q", w.pod.Object())
	case w.account != nil:
		return fmt.Sprintf("User %q", w.account.User)
	case w.origin == nil:
		return "an unnamed sender"
	case !w.origin.Address.IsValid():
		return "a Unix socket"
	}
	return w.origin.Address.String()
}
