package identity

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Resources knows the resources of the cluster, or Kubernetes' built-in ones.
type Resources interface {
	// Canonical turns any spelling of a resource ("pod", "ingresses") into its canonical form
	// ("pods", "ingresses.networking.k8s.io"), and says whether its objects are in namespaces. An
	// unknown or ambiguous resource is an error.
	Canonical(resource string) (canonical string, namespaced bool, err error)
}

// Cluster is the part of the cluster view that identity needs. An unknown or finished pod is nil.
type Cluster interface {
	PodNamed(namespace, name string) *metric.Pod
	PodWithUID(uid string) *metric.Pod
	PodWithContainer(id string) *metric.Pod
	// Object reports whether an object exists, if objects of its kind are watched. The resource is
	// canonical.
	Object(resource, namespace, name string) (uid string, exists, watched bool)
	// Namespace returns when a namespace was created; the zero time: there is none. It is not known if namespaces
	// are not watched.
	Namespace(name string) (uid string, created time.Time, known bool)
	// Synced reports whether everything was read once. Before that, an unknown object may exist.
	Synced() (synced bool, detail string)
	// Outage returns the start and the cause of an outage in which new pods stay unknown, if there is one.
	Outage() (since time.Time, why string, blind bool)
}

// Resolver finds the object of a sample and decides whether the sender may describe it. Any
// goroutine may use it.
type Resolver struct {
	config     Config
	resources  Resources
	cluster    Cluster // nil: standalone
	forwarders senderList
	writers    senderList
}

// New makes a resolver of a valid configuration. Without a cluster (nil) it accepts every claim.
func New(c Config, r Resources, cluster Cluster) *Resolver {
	forwarders, _ := parseSenderList(c.TrustedForwarders)
	writers, _ := parseSenderList(c.ExternalWriters)
	return &Resolver{config: c, resources: r, cluster: cluster, forwarders: forwarders, writers: writers}
}

// Describe finds the object that a sample describes. It rejects the sample (metric.Identity) if the
// sender may not describe it, and returns metric.Pending if that cannot be decided yet. It
// allocates nothing and keeps neither argument.
func (r *Resolver) Describe(s *metric.Sample, d *metric.Description) metric.Reason {
	var v decision
	r.decide(s, d, &v)
	return v.reason
}

// decision is the outcome for one sample, with everything that Explain needs.
type decision struct {
	reason metric.Reason
	rule   rule
	object metric.Object
	uid    string // of the pod, if the claim is a UID
	sender sender
	err    error // of an invalid claim
	needs  metric.Right
}

func (v *decision) reject(w rule) { v.reason, v.rule = metric.Identity, w }

func (v *decision) wait(w rule) { v.reason, v.rule = metric.Pending, w }

func (r *Resolver) decide(s *metric.Sample, d *metric.Description, v *decision) {
	labels, c := r.claimed(s, d.Labels[:0])
	d.Labels, d.ObjectLifetime, d.Retainable = metric.SortLabels(labels), false, false
	v.object, v.uid, v.err = c.object, c.uid, c.err
	switch {
	case c.unreadable && r.unsynced():
		v.wait(unsynced)
	case c.unreadable:
		v.reject(badClaim)
	case r.cluster == nil:
		if c.inSendersNamespace && !c.object.External() {
			v.object.Namespace = r.config.DefaultNamespace
		}
	default:
		v.sender = r.senderOf(s.Sender)
		if v.sender.pod != nil && predates(s) {
			v.reject(predatesPod)
			break
		}
		r.decideClaim(s, &c, d, v)
		if s.Arrived != 0 && v.reason == metric.Applied && r.outlived(s, &c, v) {
			v.reject(predatesObject)
		}
	}
	d.Object = v.object
}

// IsFormer reports whether a sample is rejected because of when it arrived: from a former holder of the
// address, or about a former pod or namespace of the name.
func (r *Resolver) IsFormer(s *metric.Sample) bool {
	var d metric.Description
	var v decision
	r.decide(s, &d, &v)
	return v.rule == predatesPod || v.rule == predatesObject
}

// outlived reports whether a held sample arrived before the namespace of its object was created, or the pod that it
// names: it was about the one that had the name before.
func (r *Resolver) outlived(s *metric.Sample, c *claim, v *decision) bool {
	o := &v.object
	if o.Resource == pods && !c.byUID() && !v.sender.is(o) {
		if pod := r.cluster.PodWithUID(o.UID); pod != nil && pod.Created != 0 && s.ArrivedBefore(time.Unix(pod.Created, 0)) {
			return true
		}
	}
	namespace := o.InNamespace()
	if namespace == "" {
		return false
	}
	_, created, known := r.cluster.Namespace(namespace)
	return known && !created.IsZero() && s.ArrivedBefore(created)
}

// predates reports whether a held sample arrived before the pod that has its sender's address now.
func predates(s *metric.Sample) bool {
	return s.Arrived != 0 && s.Sender.Follows(time.Unix(0, s.Arrived))
}

// decideClaim decides about a claim, or its absence, in a cluster.
func (r *Resolver) decideClaim(s *metric.Sample, c *claim, d *metric.Description, v *decision) {
	who := &v.sender
	if c.none && r.decideUnclaimed(s, d, v) {
		return
	}
	if c.inSendersNamespace && !r.fillNamespace(v) {
		return
	}
	if c.byUID() {
		r.decidePod(r.podWithUID(c, who), s, d, v)
		return
	}
	if !r.permitted(v, metric.Create) {
		return
	}
	switch {
	case v.object.External():
	case v.object.Resource == pods:
		r.decidePod(r.podNamed(&v.object, who), s, d, v)
	default:
		r.decideObject(d, v)
	}
}

// decideUnclaimed decides about a sample without a claim: it describes the pod that sent it. False:
// the sample is external.
func (r *Resolver) decideUnclaimed(s *metric.Sample, d *metric.Description, v *decision) bool {
	who := &v.sender
	switch {
	case s.DefaultExternal:
		return false
	case who.unknown:
		v.wait(unknownAddress)
	case who.pod != nil && !who.pod.DefaultExternal:
		v.object, d.ObjectLifetime, d.Retainable = who.pod.Object(), true, true
	case who.pod == nil && who.account == nil && !who.forwarder && !who.writer && r.config.Trust != Open:
		v.needs = rightTo(metric.Create, &v.object) // an account without a claim describes nothing
		v.reject(untrustedSender)
	default:
		return false
	}
	return true
}

// fillNamespace puts an object without a namespace into the sender's. An external stays outside of
// namespaces if the sender is in none.
func (r *Resolver) fillNamespace(v *decision) bool {
	switch {
	case v.sender.namespace() != "":
		v.object.Namespace = v.sender.namespace()
	case v.object.External() && (v.sender.writer || !v.sender.unknown):
	case v.sender.unknown:
		v.wait(unknownAddress)
		return false
	default:
		v.reject(noNamespace)
		return false
	}
	return true
}

func (r *Resolver) podWithUID(c *claim, who *sender) *metric.Pod {
	switch {
	case c.pod != nil:
		return c.pod
	case who.pod != nil && who.pod.UID == c.uid:
		return who.pod
	}
	return r.cluster.PodWithUID(c.uid)
}

func (r *Resolver) podNamed(o *metric.Object, who *sender) *metric.Pod {
	if who.is(o) {
		return who.pod
	}
	return r.cluster.PodNamed(o.Namespace, o.Name)
}

// decidePod decides about a claimed pod; nil: the cluster view knows none. The samples of a trusted
// sender are pending until the pod is known, because the view may lag. A series is never on an
// unknown pod, so a staleness marker ends nothing there and need not wait.
func (r *Resolver) decidePod(pod *metric.Pod, s *metric.Sample, d *metric.Description, v *decision) {
	if pod == nil {
		switch {
		case !v.sender.forwarder && r.config.Trust != Open:
			r.rejectOrWait(notOwn, v)
		case s.Op != metric.MarkStale || !r.isCurrent():
			v.wait(unknownPod)
		}
		return
	}
	v.object, v.uid, d.Retainable = pod.Object(), "", true
	d.ObjectLifetime = r.permitted(v, metric.Create)
}

// decideObject checks that a permitted object exists.
func (r *Resolver) decideObject(d *metric.Description, v *decision) {
	o := &v.object
	uid, exists, watched := r.cluster.Object(o.Resource, o.Namespace, o.Name)
	if exists {
		o.UID, d.ObjectLifetime = uid, watched
		return
	}
	switch {
	case r.unsynced():
		v.wait(unsynced)
	case watched:
		v.reject(missingObject)
	case v.sender.forwarder, r.config.Trust == Open, v.sender.livesIn(o):
	default:
		v.reject(unwatchedKind)
	}
}

// unsynced reports whether the cluster view is not synced yet.
func (r *Resolver) unsynced() bool {
	if r.cluster == nil {
		return false
	}
	synced, _ := r.cluster.Synced()
	return !synced
}

// isCurrent reports whether the cluster view is synced and follows the API server.
func (r *Resolver) isCurrent() bool {
	_, _, blind := r.cluster.Outage()
	return !blind && !r.unsynced()
}

// maxLag is the age from which a sample is of no pod that the cluster view will still learn of. Pending samples
// are held for as long.
const maxLag = 30 * time.Second

// ExplainEnded says of a pending sample that its pod has ended: the client sends a value of a while ago, and the
// cluster view has no such pod. Empty: the pod may still become known.
func (r *Resolver) ExplainEnded(s *metric.Sample) string {
	if s.Dated == 0 || time.Since(s.Date()) < maxLag {
		return ""
	}
	var d metric.Description
	var v decision
	if r.decide(s, &d, &v); v.rule != unknownPod || !r.isCurrent() {
		return ""
	}
	v.rule = missingObject
	return r.explain(&v)
}

// rejectOrWait rejects the sample, unless it may be allowed once the sender or its rights are
// known.
func (r *Resolver) rejectOrWait(w rule, v *decision) {
	switch {
	case w == rightUnknown:
		v.wait(w)
	case v.sender.unknown && w != notGranted:
		v.wait(unknownAddress)
	default:
		v.reject(w)
	}
}
