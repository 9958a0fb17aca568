package identity

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// rule is the reason why a sample was rejected, or is pending.
type rule uint8

const (
	allowed         rule = iota
	badClaim             // the claim is invalid
	predatesPod          // the sample arrived before its sender's pod was created
	predatesObject       // the sample arrived before its pod, or its object's namespace, was created
	noNamespace          // neither the claim nor the sender names a namespace
	untrustedSender      // the sender is neither a pod nor a forwarder
	notOwn               // the object is another pod, or in another namespace
	clusterScoped        // the object is in no namespace
	clusterWide          // the external is in no namespace
	missingObject        // the object does not exist
	unwatchedKind        // the object's kind is not watched
	notGranted           // the account lacks the right
	rightUnknown         // pending: nobody asked whether the account has the right
	unknownAddress       // pending
	unknownPod           // pending
	unsynced             // pending
)

// Explain says why a sample is rejected or pending, for its sender to read. It decides anew, so it
// is for answers and log lines and not for each sample.
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
		return fmt.Sprintf("the claim in %s is invalid: %v", ObjectLabel, v.err)
	case predatesPod:
		return fmt.Sprintf("the sample arrived before %s was created or had started, from the address that this pod has now",
			v.sender.describe())
	case predatesObject:
		return fmt.Sprintf("the sample arrived before %s, or its namespace, was created: it was about the former one of that name",
			subject)
	case noNamespace:
		return fmt.Sprintf(`%s names no namespace, and its sender, %s, is in none; add the label "namespace"`,
			subject, v.sender.describe())
	case untrustedSender:
		return fmt.Sprintf("%s: %s is neither the address of one pod nor a trusted forwarder, so it may not push metrics",
			subject, v.sender.describe())
	case notOwn:
		return fmt.Sprintf("%s: this sender is %s and may only describe %s", subject, v.sender.describe(),
			r.trustedScope())
	case clusterScoped:
		return fmt.Sprintf("%s is in no namespace; only trusted forwarders may describe it, and this sender, %s, is not one",
			subject, v.sender.describe())
	case clusterWide:
		return fmt.Sprintf("%s may only be written by senders in external-writers, and this sender, %s, is not one; name a namespace, as in external/shop",
			subject, v.sender.describe())
	case missingObject:
		return fmt.Sprintf("%s does not exist", subject)
	case unwatchedKind:
		return fmt.Sprintf("%s cannot be verified: objects of its kind are not watched; add the kind to object-kinds",
			subject)
	case notGranted:
		return fmt.Sprintf("%s: %s", subject, v.needs.Forbidden(v.sender.account.User))
	case rightUnknown:
		user := v.sender.account
		if user == nil {
			user = v.sender.reads
		}
		return fmt.Sprintf("%s: it is not known yet whether User %q may %s", subject, user.User, v.needs)
	case unknownAddress:
		if v.sender.account != nil {
			return fmt.Sprintf("the pod named by the token of %s is not known yet", v.sender.describe())
		}
		return fmt.Sprintf("%s is not known as a pod's address yet", v.sender.describe())
	case unsynced:
		return fmt.Sprintf("%s is not known yet: the cluster has not been read completely", subject)
	case unknownPod:
		return fmt.Sprintf("%s is not known yet", subject)
	}
	return "the sample would be accepted now; send it again"
}

// trustedScope names the objects that a pod may describe.
func (r *Resolver) trustedScope() string {
	if r.config.Trust == Namespace {
		return "itself, and existing objects other than pods and externals of its own namespace"
	}
	return "itself"
}

// describe names the sender in a message.
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
