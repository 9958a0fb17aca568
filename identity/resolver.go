package identity

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Resources knows the resources that objects can be of.
type Resources interface {
	// Canonical turns any spelling of a resource ("pod", "ingresses") into the one that series are filed under
	// ("pods", "ingresses.networking.k8s.io") and says whether its objects are in namespaces. An unknown or
	// ambiguous resource is an error.
	Canonical(resource string) (canonical string, namespaced bool, err error)
}

// Cluster knows what lives in the cluster. A pod that it does not know is nil; one that has finished does not live.
type Cluster interface {
	PodNamed(namespace, name string) *metric.Pod
	PodWithUID(uid string) *metric.Pod
	PodWithContainer(id string) *metric.Pod
	// Object says whether an object exists, where objects of its kind are watched. The resource is canonical.
	Object(resource, namespace, name string) (uid string, exists, watched bool)
	// Synced says whether everything was read once. Before, what is not known may exist all the same.
	Synced() (synced bool, detail string)
}

// Resolver reads claims and decides whether they may be made. It is safe for use by many goroutines.
type Resolver struct {
	config     Config
	resources  Resources
	cluster    Cluster // nil: standalone
	forwarders senderList
	writers    senderList
}

// New makes a resolver of a valid configuration. Without a cluster (nil) every claim is believed.
func New(c Config, r Resources, cluster Cluster) *Resolver {
	forwarders, _ := parseSenderList(c.TrustedForwarders)
	writers, _ := parseSenderList(c.ExternalWriters)
	return &Resolver{config: c, resources: r, cluster: cluster, forwarders: forwarders, writers: writers}
}

// Describe says what a sample is about, that it may not be about that (metric.Identity), or that it cannot be said
// yet (metric.Pending). It allocates nothing and keeps nothing of either.
func (r *Resolver) Describe(s *metric.Sample, d *metric.Description) metric.Reason {
	var v decision
	r.decide(s, d, &v)
	return v.reason
}

// verdict is what was decided about one sample, with all that it takes to explain it.
type decision struct {
	reason metric.Reason
	rule   rule
	object metric.Object
	uid    string // of the pod, where only that was claimed
	sender sender
	err    error // of a claim that cannot be read
	needs  metric.Right
}

func (v *decision) reject(w rule) { v.reason, v.rule = metric.Identity, w }

func (v *decision) wait(w rule) { v.reason, v.rule = metric.Pending, w }

func (r *Resolver) decide(s *metric.Sample, d *metric.Description, v *decision) {
	labels, c := r.claimed(s, d.Labels[:0])
	d.Labels, d.Bound, d.Lasting = metric.SortLabels(labels), false, false
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
		if v.sender.pod != nil && predates(s, v.sender.pod) {
			v.reject(predatesPod)
			break
		}
		r.decideClaim(s, &c, d, v)
	}
	d.Object = v.object
}

// createdSlack is what clocks may differ by: a held sample is older than its pod only if it came that much before.
const createdSlack = 2 * time.Second

// predates reports whether a sample that was held came before the pod was made that has its sender's address by now: it is of
// who had the address then.
func predates(s *metric.Sample, pod *metric.Pod) bool {
	return s.Arrived != 0 && pod.Created != 0 && time.Unix(0, s.Arrived).Add(createdSlack).Before(time.Unix(pod.Created, 0))
}

// judge decides about a claim, or the want of one, in a cluster.
func (r *Resolver) decideClaim(s *metric.Sample, c *claim, d *metric.Description, v *decision) {
	who := &v.sender
	if c.none && r.decideUnclaimed(s, d, v) {
		return
	}
	if c.inSendersNamespace && !r.fillNamespace(v) {
		return
	}
	if c.byUID() {
		r.decidePod(r.podWithUID(c, who), d, v)
		return
	}
	if !r.permitted(v, metric.Create) {
		return
	}
	switch {
	case v.object.External():
	case v.object.Resource == pods:
		r.decidePod(r.podNamed(&v.object, who), d, v)
	default:
		r.decideObject(d, v)
	}
}

// judgeUnclaimed decides about a sample that claims nothing: it is about the pod that sent it. False: it is external.
func (r *Resolver) decideUnclaimed(s *metric.Sample, d *metric.Description, v *decision) bool {
	who := &v.sender
	switch {
	case s.AboutExternal:
		return false
	case who.unknown:
		v.wait(unknownAddress)
	case who.pod != nil && !who.pod.AboutExternal:
		v.object, d.Bound, d.Lasting = who.pod.Object(), true, true
	case who.pod == nil && who.account == nil && !who.forwarder && !who.writer && r.config.Trust != Open:
		v.needs = rightTo(metric.Create, &v.object) // with a credential it would be about nothing
		v.reject(untrustedSender)
	default:
		return false
	}
	return true
}

// inSendersNamespace puts what names no namespace into the sender's. What is external is in none where the sender
// is in none.
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

// judgePod decides about a claimed pod; nil: the cluster knows none. A sender that may speak of others waits for it,
// for the cluster's view may lag: a series is never on a pod that is not known.
func (r *Resolver) decidePod(pod *metric.Pod, d *metric.Description, v *decision) {
	if pod == nil {
		if v.sender.forwarder || r.config.Trust == Open {
			v.wait(unknownPod)
		} else {
			r.rejectOrWait(notOwn, v)
		}
		return
	}
	v.object, v.uid, d.Lasting = pod.Object(), "", true
	d.Bound = r.permitted(v, metric.Create)
}

// judgeObject decides about an object that may be spoken of, if it exists.
func (r *Resolver) decideObject(d *metric.Description, v *decision) {
	o := &v.object
	uid, exists, watched := r.cluster.Object(o.Resource, o.Namespace, o.Name)
	if exists {
		o.UID, d.Bound = uid, watched
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

// unsynced reports whether the cluster has not been read whole yet.
func (r *Resolver) unsynced() bool {
	if r.cluster == nil {
		return false
	}
	synced, _ := r.cluster.Synced()
	return !synced
}

// reject refuses, unless it may be allowed once it is known who the sender is, or what it was granted.
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
