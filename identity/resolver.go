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
	forwarders peers
	writers    peers
}

// New makes a resolver of a valid configuration. Without a cluster (nil) every claim is believed.
func New(c Config, r Resources, cluster Cluster) *Resolver {
	forwarders, _ := parsePeers(c.TrustedForwarders)
	writers, _ := parsePeers(c.ExternalWriters)
	return &Resolver{config: c, resources: r, cluster: cluster, forwarders: forwarders, writers: writers}
}

// Describe says what a sample is about, that it may not be about that (metric.Identity), or that it cannot be said
// yet (metric.Pending). It allocates nothing and keeps nothing of either.
func (r *Resolver) Describe(s *metric.Sample, d *metric.Description) metric.Reason {
	var v verdict
	r.decide(s, d, &v)
	return v.reason
}

// verdict is what was decided about one sample, with all that it takes to explain it.
type verdict struct {
	reason metric.Reason
	why    why
	object metric.Object
	uid    string // of the pod, where only that was claimed
	who    speaker
	err    error // of a claim that cannot be read
	needs  metric.Right
}

func (v *verdict) refuse(w why) { v.reason, v.why = metric.Identity, w }

func (v *verdict) wait(w why) { v.reason, v.why = metric.Pending, w }

func (r *Resolver) decide(s *metric.Sample, d *metric.Description, v *verdict) {
	labels, c := r.claimed(s, d.Labels[:0])
	d.Labels, d.ObjectLifetime, d.Retainable = metric.SortLabels(labels), false, false
	v.object, v.uid, v.err = c.object, c.uid, c.err
	switch {
	case c.unreadable && r.unsynced():
		v.wait(unsynced)
	case c.unreadable:
		v.refuse(badClaim)
	case r.cluster == nil:
		if c.sendersNamespace && !c.object.External() {
			v.object.Namespace = r.config.DefaultNamespace
		}
	default:
		v.who = r.speaker(s.Sender)
		if v.who.pod != nil && predates(s, v.who.pod) {
			v.refuse(beforeThePod)
			break
		}
		r.judge(s, &c, d, v)
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
func (r *Resolver) judge(s *metric.Sample, c *claim, d *metric.Description, v *verdict) {
	who := &v.who
	if c.none && r.judgeUnclaimed(s, d, v) {
		return
	}
	if c.sendersNamespace && !r.inSendersNamespace(v) {
		return
	}
	if c.byUID() {
		r.judgePod(r.podWithUID(c, who), d, v)
		return
	}
	if !r.holds(v, metric.Create) {
		return
	}
	switch {
	case v.object.External():
	case v.object.Resource == pods:
		r.judgePod(r.podNamed(&v.object, who), d, v)
	default:
		r.judgeObject(d, v)
	}
}

// judgeUnclaimed decides about a sample that claims nothing: it is about the pod that sent it. False: it is external.
func (r *Resolver) judgeUnclaimed(s *metric.Sample, d *metric.Description, v *verdict) bool {
	who := &v.who
	switch {
	case s.DefaultExternal:
		return false
	case who.unknown:
		v.wait(unknownAddress)
	case who.pod != nil && !who.pod.DefaultExternal:
		v.object, d.ObjectLifetime, d.Retainable = who.pod.Object(), true, true
	case who.pod == nil && who.account == nil && !who.forwarder && !who.writer && r.config.Trust != Open:
		v.needs = rightTo(metric.Create, &v.object) // with a credential it would be about nothing
		v.refuse(nobody)
	default:
		return false
	}
	return true
}

// inSendersNamespace puts what names no namespace into the sender's. What is external is in none where the sender
// is in none.
func (r *Resolver) inSendersNamespace(v *verdict) bool {
	switch {
	case v.who.namespace() != "":
		v.object.Namespace = v.who.namespace()
	case v.object.External() && (v.who.writer || !v.who.unknown):
	case v.who.unknown:
		v.wait(unknownAddress)
		return false
	default:
		v.refuse(noNamespace)
		return false
	}
	return true
}

func (r *Resolver) podWithUID(c *claim, who *speaker) *metric.Pod {
	switch {
	case c.pod != nil:
		return c.pod
	case who.pod != nil && who.pod.UID == c.uid:
		return who.pod
	}
	return r.cluster.PodWithUID(c.uid)
}

func (r *Resolver) podNamed(o *metric.Object, who *speaker) *metric.Pod {
	if who.is(o) {
		return who.pod
	}
	return r.cluster.PodNamed(o.Namespace, o.Name)
}

// judgePod decides about a claimed pod; nil: the cluster knows none. A sender that may speak of others waits for it,
// for the cluster's view may lag: a series is never on a pod that is not known.
func (r *Resolver) judgePod(pod *metric.Pod, d *metric.Description, v *verdict) {
	if pod == nil {
		if v.who.forwarder || r.config.Trust == Open {
			v.wait(unknownPod)
		} else {
			r.reject(anothers, v)
		}
		return
	}
	v.object, v.uid, d.Retainable = pod.Object(), "", true
	d.ObjectLifetime = r.holds(v, metric.Create)
}

// judgeObject decides about an object that may be spoken of, if it exists.
func (r *Resolver) judgeObject(d *metric.Description, v *verdict) {
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
		v.refuse(noObject)
	case v.who.forwarder, r.config.Trust == Open, v.who.livesIn(o):
	default:
		v.refuse(unwatched)
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
func (r *Resolver) reject(w why, v *verdict) {
	switch {
	case w == unasked:
		v.wait(w)
	case v.who.unknown && w != notGranted:
		v.wait(unknownAddress)
	default:
		v.refuse(w)
	}
}
