package identity

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// world is a small cluster: two pods in shop, one in bank, a forwarder in ingress, an ingress and
// the namespaces.
type world struct{}

var (
	web1    = &metric.Pod{Namespace: "shop", Name: "web-1", UID: "uid-web-1", ServiceAccount: "web"}
	web2    = &metric.Pod{Namespace: "shop", Name: "web-2", UID: "uid-web-2", ServiceAccount: "web"}
	teller  = &metric.Pod{Namespace: "bank", Name: "teller", UID: "uid-teller", ServiceAccount: "default"}
	nginx   = &metric.Pod{Namespace: "ingress", Name: "nginx", UID: "uid-nginx", ServiceAccount: "nginx"}
	mallory = &metric.Pod{Namespace: "shop", Name: "mallory", UID: "uid-mallory", ServiceAccount: "nginx"} // the forwarder's account name, in another namespace
	batch   = &metric.Pod{Namespace: "shop", Name: "batch", UID: "uid-batch", ServiceAccount: "batch", DefaultExternal: true}
)

var living = []*metric.Pod{web1, web2, teller, nginx, mallory, batch}

func (world) PodNamed(namespace, name string) *metric.Pod {
	for _, p := range living {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

func (world) PodWithUID(uid string) *metric.Pod {
	for _, p := range living {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

func (world) PodWithContainer(id string) *metric.Pod {
	return map[string]*metric.Pod{"c-web-1": web1, "c-web-2": web2}[id]
}

func (world) Object(resource, namespace, name string) (uid string, exists, watched bool) {
	switch resource + " " + namespace + " " + name {
	case "ingresses.networking.k8s.io shop main", "ingresses.networking.k8s.io bank main", "namespaces  shop", "namespaces  bank":
		return "uid-" + namespace + name, true, true
	}
	return "", false, resource != "services" && resource != "nodes"
}

// Namespace: shop is old, bank was made in the second 1,700,000,010.
func (world) Namespace(name string) (uid string, created time.Time, known bool) {
	switch name {
	case "shop":
		return "uid-shop", time.Unix(1_600_000_000, 0), true
	case "bank":
		return "uid-bank", time.Unix(1_700_000_010, 0), true
	}
	return "", time.Time{}, true
}

func (world) Synced() (bool, string) { return true, "" }

func (world) Outage() (since time.Time, why string, blind bool) { return time.Time{}, "", false }

// starting is the same cluster before any object was read.
type starting struct{ world }

func (starting) Object(string, string, string) (uid string, exists, watched bool) {
	return "", false, false
}

func (starting) Synced() (bool, string) { return false, "waiting for ingresses" }

// blind is the same cluster while the API server does not answer.
type blind struct{ world }

func (blind) Outage() (since time.Time, why string, blind bool) { return time.Now(), "no answer", true }

// senders by name.
var senders = map[string]*metric.Sender{
	"web-1":     {Key: 1, Address: netip.MustParseAddr("10.0.0.1"), Pod: web1, Known: true},
	"batch":     {Key: 2, Address: netip.MustParseAddr("10.0.0.2"), Pod: batch, Known: true},
	"nginx":     {Key: 3, Address: netip.MustParseAddr("10.0.0.3"), Pod: nginx, Known: true}, // a forwarder by account
	"node":      {Key: 4, Address: netip.MustParseAddr("10.9.0.1"), Known: true},
	"agent":     {Key: 5, Address: netip.MustParseAddr("10.8.0.1"), Known: true}, // a forwarder by address
	"agent6":    {Key: 6, Address: netip.MustParseAddr("fd00::8"), Known: true},
	"new":       {Key: 7, Address: netip.MustParseAddr("10.0.0.7")}, // not known yet
	"newAgent":  {Key: 8, Address: netip.MustParseAddr("10.8.0.9")},
	"outside":   {Key: 9, Address: netip.MustParseAddr("192.0.2.1")}, // an external writer outside of the cluster
	"socket":    {Key: 10, Known: true},
	"nil":       nil,
	"mallory":   {Key: 12, Address: netip.MustParseAddr("10.0.0.5"), Pod: mallory, Known: true},
	"writerPod": {Key: 11, Address: netip.MustParseAddr("10.0.0.4"), Pod: teller, Known: true},
}

func clusterConfig(t Trust) Config {
	c := DefaultConfig()
	c.Trust = t
	c.TrustedForwarders = []string{"10.8.0.0/16", "fd00::8", "ingress/nginx"}
	c.ExternalWriters = []string{"192.0.2.0/24", "bank/default"}
	return c
}

// said is a sample, as a test writes it.
type said struct {
	tags, container, external string
	about                     *metric.Object
	listener                  bool // the listener is for externals
}

func (w said) sample(sender *metric.Sender) metric.Sample {
	return metric.Sample{
		Tags: []byte(w.tags), Separator: ':', Container: []byte(w.container), External: []byte(w.external),
		Object: w.about, DefaultExternal: w.listener, Sender: sender,
	}
}

// told is the answer of Describe in short: the object ("!": bound) and the labels, or a reason.
func told(r *Resolver, s *metric.Sample) string {
	var d metric.Description
	if reason := r.Describe(s, &d); reason != metric.Applied {
		return reason.String()
	}
	text := d.Object.String()
	if d.Object.UID != "" {
		text += " " + d.Object.UID
	}
	if d.ObjectLifetime {
		text += "!"
	}
	return text + " " + metric.NewLabels(d.Labels).String()
}

// Every rule by which a sample finds its object, under the trust modes open, namespace and strict.
func TestRulesAndTrust(t *testing.T) {
	const (
		no, wait = "identity", "pending"
		self     = "pods/web-1 in shop uid-web-1! {}"
		other    = "pods/web-2 in shop uid-web-2! {}"
	)
	same := func(s string) [3]string { return [3]string{s, s, s} }
	openOnly := func(s string) [3]string { return [3]string{s, no, no} }
	notStrict := func(s string) [3]string { return [3]string{s, s, no} }
	ingress := func(ns string) *metric.Object {
		return &metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: ns, Name: "main"}
	}
	for _, c := range []struct {
		name, sender string
		said         said
		want         [3]string
	}{
		// Rules 3 and 4: no claim.
		{"a pod speaks of itself", "web-1", said{tags: "a:b"}, same("pods/web-1 in shop uid-web-1! {a=b}")},
		{"the annotation makes a pod's samples external", "batch", said{}, notStrict("external in shop {}")},
		{"a listener for externals", "web-1", said{listener: true}, notStrict("external in shop {}")},
		{"a forwarder that is a pod speaks of itself", "nginx", said{}, same("pods/nginx in ingress uid-nginx! {}")},
		{"a node speaks of nothing", "node", said{}, openOnly("external {}")},
		{"an agent without a claim writes cluster-wide, which it may not", "agent", said{}, openOnly("external {}")},
		{"nobody knows the address yet", "new", said{}, same(wait)},
		{"not even by the listener", "new", said{listener: true}, same(wait)},
		{"nor of a forwarder, which may be a pod", "newAgent", said{}, same(wait)},
		{"a Unix socket is no pod", "socket", said{}, openOnly("external {}")},
		{"no sender at all", "nil", said{}, openOnly("external {}")},
		{"a writer by way of the listener", "outside", said{listener: true}, same("external {}")},

		// Rule 2: pod claims.
		{"a pod names itself", "web-1", said{tags: "pod:web-1,namespace:shop"}, same(self)},
		{"OpenTelemetry", "web-1", said{tags: "k8s.pod.name:web-1,k8s.namespace.name:shop"}, same(self)},
		{"Datadog", "web-1", said{tags: "pod_name:web-1,kube_namespace:shop"}, same(self)},
		{"Datadog's entity", "web-1", said{tags: "dd.internal.entity_id:uid-web-1"}, same(self)},
		{"OpenTelemetry's UID", "web-1", said{tags: "k8s.pod.uid:uid-web-1"}, same(self)},
		{"OpenTelemetry's UID of another pod", "web-1", said{tags: "k8s.pod.uid:uid-web-2"}, openOnly(other)},
		{"entity none is no claim", "web-1", said{tags: "dd.internal.entity_id:none"}, same("pods/web-1 in shop uid-web-1! {dd.internal.entity_id=none}")},
		{"its own container", "web-1", said{container: "ci-c-web-1"}, same(self)},
		{"cid", "web-1", said{container: "cid-c-web-1"}, same(self)},
		{"a bare container", "web-1", said{container: "c-web-1"}, same(self)},
		{"inode and container", "web-1", said{container: "in-4711,ci-c-web-1"}, same(self)},
		{"a container that nobody knows falls through", "web-1", said{container: "ci-c-gone"}, same(self)},
		{"an inode falls through", "web-1", said{container: "in-4711"}, same(self)},
		{"external data", "web-1", said{external: "it-false,cn-web,pu-uid-web-1"}, same(self)},
		{"external data of another pod", "web-1", said{external: "it-false,cn-web,pu-uid-web-2"}, openOnly(other)},
		{"external data without a pod", "web-1", said{external: "it-false,cn-web"}, same(self)},
		{"the names go before the entity", "web-1", said{tags: "pod:web-1,namespace:shop,dd.internal.entity_id:uid-web-2"},
			same("pods/web-1 in shop uid-web-1! {dd.internal.entity_id=uid-web-2}")},
		{"another pod of the namespace", "web-1", said{tags: "pod:web-2,namespace:shop"}, openOnly(other)},
		{"another pod's UID", "web-1", said{tags: "dd.internal.entity_id:uid-web-2"}, openOnly(other)},
		{"another pod's container", "web-1", said{container: "ci-c-web-2"}, openOnly(other)},
		{"a pod of another namespace", "web-1", said{tags: "pod:teller,namespace:bank"}, openOnly("pods/teller in bank uid-teller! {}")},
		{"a pod that nobody knows", "web-1", said{tags: "pod:web-9,namespace:shop"}, [3]string{wait, no, no}},
		{"a UID that nobody knows", "web-1", said{tags: "dd.internal.entity_id:uid-9"}, [3]string{wait, no, no}},
		{"a forwarder, another pod", "agent", said{tags: "pod:web-2,namespace:shop"}, same(other)},
		{"a forwarder by IPv6", "agent6", said{tags: "pod:web-2,namespace:shop"}, same(other)},
		{"a forwarder by its account", "nginx", said{tags: "pod:web-2,namespace:shop"}, same(other)},
		{"a forwarder whose own address is not known", "newAgent", said{tags: "pod:web-2,namespace:shop"}, same(other)},
		{"the same account of another namespace", "mallory", said{tags: "pod:web-2,namespace:shop"}, openOnly(other)},
		{"a forwarder, an old container field", "agent", said{container: "cid-c-web-2"}, same(other)},
		{"a forwarder, a bare container", "agent", said{container: "c-web-2"}, same(other)},
		{"a forwarder, inode and container", "agent", said{container: "in-4711,ci-c-web-2"}, same(other)},
		{"a forwarder, an unknown container and a known one", "agent", said{container: "ci-c-gone,ci-c-web-2"}, same(other)},
		{"a forwarder, a container", "agent", said{container: "ci-c-web-2"}, same(other)},
		{"a forwarder, a UID", "agent", said{tags: "dd.internal.entity_id:uid-web-2"}, same(other)},
		{"a forwarder, a pod that nobody knows yet", "agent", said{tags: "pod:web-9,namespace:shop"}, same(wait)},
		{"a forwarder, a UID that nobody knows yet", "agent", said{tags: "dd.internal.entity_id:uid-9"}, same(wait)},
		{"a node is no forwarder", "node", said{tags: "pod:web-2,namespace:shop"}, openOnly(other)},
		{"nor is a socket", "socket", said{tags: "pod:web-2,namespace:shop"}, openOnly(other)},
		{"who is not known may turn out to be the pod", "new", said{tags: "pod:web-2,namespace:shop"}, [3]string{other, wait, wait}},
		{"by UID too", "new", said{tags: "dd.internal.entity_id:uid-9"}, same(wait)},

		// Rule 1: explicit claims.
		{"explicitly itself", "web-1", said{tags: "sluice_object:pods/web-1"}, same(self)},
		{"by the way", "web-1", said{about: &metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}}, same(self)},
		{"explicitly another", "web-1", said{tags: "sluice_object:pods/web-2"}, openOnly(other)},
		{"another by the way", "web-1", said{about: &metric.Object{Resource: "pods", Namespace: "shop", Name: "web-2"}}, openOnly(other)},
		{"an ingress in the sender's namespace", "web-1", said{tags: "sluice_object:ingresses/main,pod:a"},
			notStrict("ingresses.networking.k8s.io/main in shop uid-shopmain! {pod=a}")},
		{"the same by the way", "web-1", said{about: ingress("shop")}, notStrict("ingresses.networking.k8s.io/main in shop uid-shopmain! {}")},
		{"an ingress elsewhere", "web-1", said{tags: "sluice_object:ingresses/main,namespace:bank"},
			openOnly("ingresses.networking.k8s.io/main in bank uid-bankmain! {}")},
		{"an ingress that does not exist", "web-1", said{tags: "sluice_object:ingresses/none"}, same(no)},
		{"not even for a forwarder", "nginx", said{tags: "sluice_object:ingresses/none,namespace:shop"}, same(no)},
		{"a kind that is not watched", "web-1", said{tags: "sluice_object:services/s"}, openOnly("services/s in shop {}")},
		{"that of a forwarder", "agent", said{tags: "sluice_object:services/s,namespace:shop"}, same("services/s in shop {}")},
		{"a forwarder, an ingress", "nginx", said{about: ingress("shop")}, same("ingresses.networking.k8s.io/main in shop uid-shopmain! {}")},
		{"a forwarder that is no pod names no namespace", "agent", said{tags: "sluice_object:ingresses/main"}, same(no)},
		{"its own Namespace", "web-1", said{about: &metric.Object{Resource: "namespaces", Name: "shop"}}, notStrict("namespaces/shop uid-shop! {}")},
		{"another Namespace", "web-1", said{about: &metric.Object{Resource: "namespaces", Name: "bank"}}, openOnly("namespaces/bank uid-bank! {}")},
		{"a node's metric", "web-1", said{tags: "sluice_object:nodes/n1"}, openOnly("nodes/n1 {}")},
		{"a forwarder, a node", "agent", said{tags: "sluice_object:nodes/n1"}, same("nodes/n1 {}")},
		{"an external", "web-1", said{tags: "sluice_object:external,namespace:bank"}, notStrict("external in shop {namespace=bank}")},
		{"an external of its namespace", "web-1", said{tags: "sluice_object:external/shop"}, notStrict("external in shop {}")},
		{"an external of another", "web-1", said{tags: "sluice_object:external/bank"}, openOnly("external in bank {}")},
		{"a forwarder, an external of any", "nginx", said{tags: "sluice_object:external/bank"}, same("external in bank {}")},
		{"cluster-wide by the way", "web-1", said{about: &metric.Object{}}, openOnly("external {}")},
		{"not even for a forwarder", "nginx", said{about: &metric.Object{}}, openOnly("external {}")},
		{"a writer", "outside", said{about: &metric.Object{}}, same("external {}")},
		{"a writer in the cluster", "writerPod", said{about: &metric.Object{}}, same("external {}")},
		{"a writer by label", "outside", said{tags: "sluice_object:external"}, same("external {}")},
		{"a writer writes nothing else", "writerPod", said{tags: "sluice_object:external/shop"}, openOnly("external in shop {}")},
		{"an unknown resource", "nginx", said{tags: "sluice_object:things/a"}, same(no)},
		{"is rejected at once", "new", said{tags: "sluice_object:things/a"}, same(no)},
		{"an external by who is not known", "new", said{tags: "sluice_object:external/shop"}, [3]string{"external in shop {}", wait, wait}},
		{"its namespace is not known", "new", said{tags: "sluice_object:external"}, same(wait)},
		{"an object by who is not known", "new", said{tags: "sluice_object:ingresses/main"}, same(wait)},
	} {
		for i, trust := range []Trust{Open, Namespace, Strict} {
			s := c.said.sample(senders[c.sender])
			r := New(clusterConfig(trust), known{}, world{})
			if got := told(r, &s); got != c.want[i] {
				t.Errorf("%s, %s: %s, want %s", c.name, trust, got, c.want[i])
			}
			if why := r.Explain(&s); (c.want[i] != no && c.want[i] != wait) != strings.HasPrefix(why, "the sample would be accepted") {
				t.Errorf("%s, %s: explained as %q", c.name, trust, why)
			}
		}
	}
}

// Before the cluster is synced an object is neither rejected, because it may exist, nor accepted
// without its UID.
func TestObjectsBeforeTheClusterIsRead(t *testing.T) {
	for _, trust := range []Trust{Open, Namespace, Strict} {
		r := New(clusterConfig(trust), known{}, starting{})
		for sender, want := range map[string]string{"nginx": "pending", "web-1": "pending"} {
			if sender == "web-1" && trust == Strict {
				want = "identity"
			}
			s := said{tags: "sluice_object:ingresses/main,namespace:shop"}.sample(senders[sender])
			if got := told(r, &s); got != want {
				t.Errorf("%s, %s: %s, want %s", sender, trust, got, want)
			}
			if why := r.Explain(&s); want == "pending" && !strings.Contains(why, "has not been read completely") {
				t.Error(why)
			}
		}
	}
}

// A claim that is invalid before discovery may be valid afterwards.
func TestUnknownResourceBeforeTheClusterIsRead(t *testing.T) {
	s := said{tags: "sluice_object:things/a"}.sample(senders["web-1"])
	if got := told(New(clusterConfig(Namespace), known{}, starting{}), &s); got != "pending" {
		t.Errorf("%s, want pending", got)
	}
	if got := told(New(clusterConfig(Namespace), known{}, world{}), &s); got != "identity" {
		t.Errorf("once it is read: %s, want identity", got)
	}
}

// A held sample that arrived before the pod was created belongs to the previous owner of the
// address.
func TestHeldSampleOlderThanItsPod(t *testing.T) {
	young := *web1
	young.Created = 1_700_000_010
	for _, tags := range []string{"", "pod:web-1,namespace:shop", "sluice_object:external"} {
		for _, c := range []struct {
			arrived float64 // after the second in which the pod was created
			started int64   // the second of its first container, after that one; 0: it is not known
			reused  bool    // another pod has just had the address
			want    string
		}{
			{-10, 0, false, "identity"}, {-1, 0, false, "applied"}, {10, 0, false, "applied"},
			{-1, 0, true, "identity"}, {0.9, 0, true, "identity"}, {1, 0, true, "applied"},
			{27, 30, false, "identity"}, {28, 30, false, "applied"}, // it waited for a node, or for the address
			{29.9, 30, true, "identity"}, {30, 30, true, "applied"},
		} {
			sender := *senders["web-1"]
			sender.Pod, sender.Reused = &young, c.reused
			if c.started != 0 {
				sender.Started = young.Created + c.started
			}
			s := said{tags: tags}.sample(&sender)
			s.Arrived = young.Created*1e9 + int64(c.arrived*1e9)
			r := New(clusterConfig(Namespace), known{}, world{})
			var d metric.Description
			if got := r.Describe(&s, &d).String(); got != c.want {
				t.Errorf("%q came %v s after the pod was made, whose containers started after %d s, reused %t: %s, want %s",
					tags, c.arrived, c.started, c.reused, got, c.want)
			}
			if why := r.Explain(&s); c.want == "identity" && !strings.Contains(why, "before") {
				t.Error(why)
			}
		}
	}
}

// A forwarder's sample that was held, and arrived before the pod that it names or the namespace of its object was
// created, is about the former one of that name.
func TestHeldSampleOlderThanWhatItNames(t *testing.T) {
	defer func(was int64) { web1.Created = was }(web1.Created)
	web1.Created = 1_700_000_010
	const named, yes, no = 1_700_000_010, "applied", "identity"
	for _, c := range []struct {
		tags                string
		before, late, after string // 10 s before the creation; 1 s before it, as clocks may differ; after it
	}{
		{"pod:web-1,namespace:shop", no, yes, yes},
		{"sluice_object:pods/web-1,namespace:shop", no, yes, yes},
		{"dd.internal.entity_id:uid-web-1", yes, yes, yes}, // a UID has no former owner
		{"pod:web-2,namespace:shop", yes, yes, yes},        // it is not known when it was created
		{"pod:teller,namespace:bank", no, yes, yes},
		{"sluice_object:external/bank", no, yes, yes},
		{"sluice_object:namespaces/bank", no, yes, yes},
		{"sluice_object:ingresses/main,namespace:bank", no, yes, yes},
		{"sluice_object:external/shop", yes, yes, yes},
		{"sluice_object:external/nowhere", yes, yes, yes}, // a forwarder may be earlier than the namespace
	} {
		for from, want := range map[float64]string{-10: c.before, -1: c.late, 10: c.after} {
			s := said{tags: c.tags}.sample(senders["agent"])
			s.Arrived = named*1e9 + int64(from*1e9)
			r := New(clusterConfig(Namespace), known{}, world{})
			var d metric.Description
			if got := r.Describe(&s, &d).String(); got != want {
				t.Errorf("%s, %v s after the creation: %s, want %s", c.tags, from, got, want)
			}
			if r.IsFormer(&s) != (want == no) {
				t.Errorf("%s, %v s after the creation: is former: %t", c.tags, from, r.IsFormer(&s))
			}
			if why := r.Explain(&s); want == no && !strings.Contains(why, "the former one of that name") {
				t.Error(why)
			}
			if s.Arrived = 0; r.Describe(&s, &d) != metric.Applied {
				t.Errorf("%s, not held: %s", c.tags, r.Explain(&s))
			}
		}
	}
}

// Prometheus repeats what it could not write. A staleness marker of a pod that is gone ends nothing, and an old value
// of one never finds it.
func TestSamplesOfEndedPodsDoNotWait(t *testing.T) {
	synctest.Test(t, samplesOfEndedPodsDoNotWait)
}

func samplesOfEndedPodsDoNotWait(t *testing.T) {
	const gone, named = "pod:web-9,namespace:shop", "sluice_object:pods/web-9,namespace:shop"
	now := time.Now()
	for _, c := range []struct {
		name, tags, sender string
		cluster            Cluster
		op                 metric.Op
		age                time.Duration // 0: not dated
		reason             metric.Reason
		ended              bool
	}{
		{"a marker", gone, "agent", world{}, metric.MarkStale, time.Second, metric.Applied, false},
		{"a marker, by object", named, "agent", world{}, metric.MarkStale, time.Second, metric.Applied, false},
		{"a marker, by UID", "dd.internal.entity_id:u", "agent", world{}, metric.MarkStale, time.Second, metric.Applied, false},
		{"a marker of a stranger", gone, "web-1", world{}, metric.MarkStale, time.Second, metric.Identity, false},
		{"a marker of an unknown sender", gone, "new", world{}, metric.MarkStale, time.Minute, metric.Pending, false},
		{"a marker at the start", gone, "agent", starting{}, metric.MarkStale, time.Second, metric.Pending, false},
		{"a marker in an outage", gone, "agent", blind{}, metric.MarkStale, time.Second, metric.Pending, false},
		{"a value", gone, "agent", world{}, metric.Assign, time.Second, metric.Pending, false},
		{"a value without a date", gone, "agent", world{}, metric.Assign, 0, metric.Pending, false},
		{"an old value", gone, "agent", world{}, metric.Assign, time.Minute, metric.Pending, true},
		{"an old value at the start", gone, "agent", starting{}, metric.Assign, time.Minute, metric.Pending, false},
		{"an old value in an outage", gone, "agent", blind{}, metric.Assign, time.Minute, metric.Pending, false},
		{"an old value of an unknown sender", "pod:web-1,namespace:shop", "new", world{}, metric.Assign, time.Minute, metric.Pending, false},
	} {
		s := said{tags: c.tags}.sample(senders[c.sender])
		if s.Op = c.op; c.age != 0 {
			s.Dated = now.Add(-c.age).UnixNano()
		}
		r := New(clusterConfig(Namespace), known{}, c.cluster)
		var d metric.Description
		if got := r.Describe(&s, &d); got != c.reason {
			t.Errorf("%s: %s, want %s", c.name, got, c.reason)
		}
		if why := r.ExplainEnded(&s); (why == `"pods/web-9 in shop" does not exist`) != c.ended || !c.ended && why != "" {
			t.Errorf("%s has ended: %q", c.name, why)
		}
	}
}

// The entry "unix" trusts anyone who can open the socket.
func TestUnixForwarder(t *testing.T) {
	c := clusterConfig(Strict)
	s := said{tags: "pod:web-2,namespace:shop"}.sample(senders["socket"])
	c.TrustedForwarders = append(c.TrustedForwarders, "unix")
	if got := told(New(c, known{}, world{}), &s); got != "pods/web-2 in shop uid-web-2! {}" {
		t.Error(got)
	}
	s.Sender = nil
	if got := told(New(c, known{}, world{}), &s); got != "identity" {
		t.Errorf("no sender was taken for a Unix socket: %s", got)
	}
}

// A rejection names the rule, the sender and what the sender may describe.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		sender string
		trust  Trust
		said   said
		want   string
	}{
		{"web-1", Namespace, said{tags: "pod:web-2,namespace:shop"},
			`"pods/web-2 in shop": this sender is "pods/web-1 in shop" and may only describe itself, and existing objects other than pods and externals of its own namespace`},
		{"web-1", Strict, said{tags: "sluice_object:external"}, `"external in shop": this sender is "pods/web-1 in shop" and may only describe itself`},
		{"web-1", Namespace, said{tags: "dd.internal.entity_id:u"}, `the pod with UID "u": this sender is`},
		{"web-1", Namespace, said{tags: "sluice_object:nodes/n"}, `"nodes/n" is in no namespace; only trusted forwarders`},
		{"web-1", Namespace, said{about: &metric.Object{}}, `a cluster-wide external may only be written by senders in external-writers`},
		{"web-1", Namespace, said{tags: "sluice_object:ingresses/none"}, `"ingresses.networking.k8s.io/none in shop" does not exist`},
		{"web-1", Namespace, said{tags: "sluice_object:services/s"}, `not watched; add the kind to object-kinds`},
		{"agent", Namespace, said{tags: "sluice_object:ingresses/main"}, `add the label "namespace"`},
		{"agent", Namespace, said{tags: "pod:web-9,namespace:shop"}, `"pods/web-9 in shop" is not known yet`},
		{"node", Namespace, said{}, `10.9.0.1 is neither the address of one pod nor a trusted forwarder`},
		{"new", Namespace, said{}, `10.0.0.7 is not known as a pod's address yet`},
		{"web-1", Namespace, said{tags: "sluice_object:things/a"}, `sluice_object is invalid: unknown resource`},
		{"socket", Namespace, said{}, `a Unix socket`},
	} {
		s := c.said.sample(senders[c.sender])
		if got := New(clusterConfig(c.trust), known{}, world{}).Explain(&s); !strings.Contains(got, c.want) {
			t.Errorf("%+v:\n got %s\nwant %s", c.said, got, c.want)
		}
	}
}

// The configuration lists senders by address, which need not be known, and by account.
func TestListed(t *testing.T) {
	r := New(clusterConfig(Namespace), known{}, world{})
	for name, want := range map[string]bool{
		"web-1": false, "new": false, "node": false, "nil": false, "socket": false,
		"nginx": true, "newAgent": true, "outside": true, "writerPod": true,
	} {
		if got := r.Listed(senders[name]); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Reading follows the same trust as pushing. The answers are for the modes open, namespace and
// strict.
func TestMay(t *testing.T) {
	const ok, no, wait = metric.Applied, metric.Identity, metric.Pending
	for _, c := range []struct {
		sender string
		object metric.Object
		want   [3]metric.Reason
	}{
		{"web-1", web1.Object(), [3]metric.Reason{ok, ok, ok}},
		{"web-1", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, [3]metric.Reason{ok, ok, ok}},
		{"web-1", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "uid-before"}, [3]metric.Reason{ok, no, no}},
		{"web-1", web2.Object(), [3]metric.Reason{ok, no, no}},
		{"web-1", metric.Object{Resource: "pods", Namespace: "shop", Name: "*"}, [3]metric.Reason{ok, no, no}},
		{"web-1", metric.Object{Resource: "services", Namespace: "shop", Name: "*"}, [3]metric.Reason{ok, ok, no}},
		{"web-1", metric.Object{Resource: "services", Namespace: "bank", Name: "*"}, [3]metric.Reason{ok, no, no}},
		{"web-1", metric.Object{Namespace: "shop"}, [3]metric.Reason{ok, ok, no}},
		{"web-1", metric.Object{Namespace: "bank"}, [3]metric.Reason{ok, no, no}},
		{"web-1", metric.Object{}, [3]metric.Reason{ok, no, no}},
		{"outside", metric.Object{}, [3]metric.Reason{ok, ok, ok}},
		{"nginx", metric.Object{Resource: "pods", Namespace: "shop", Name: "*"}, [3]metric.Reason{ok, ok, ok}},
		{"node", web1.Object(), [3]metric.Reason{ok, no, no}},
		{"new", web1.Object(), [3]metric.Reason{ok, wait, wait}},
		{"nil", web1.Object(), [3]metric.Reason{ok, no, no}},
	} {
		for i, trust := range []Trust{Open, Namespace, Strict} {
			got, why, _ := New(clusterConfig(trust), known{}, world{}).May(senders[c.sender], metric.Get, c.object)
			if got != c.want[i] || (why == "") != (got == ok) {
				t.Errorf("%s reads %s, %s: %s (%s), want %s", c.sender, c.object, trust, got, why, c.want[i])
			}
		}
	}
	if got, _, _ := New(DefaultConfig(), known{}, nil).May(nil, metric.Get, web1.Object()); got != ok {
		t.Errorf("standalone: %s", got)
	}
}

func TestDescribeAllocatesNothingInACluster(t *testing.T) {
	for _, trust := range []Trust{Open, Namespace, Strict} {
		r := New(clusterConfig(trust), known{}, world{})
		for _, w := range []said{{tags: "a:b,c:d"}, {tags: "pod:web-2,namespace:shop,a:b"}, {container: "ci-c"}, {tags: "sluice_object:external/bank"}} {
			s, d := w.sample(senders["web-1"]), metric.Description{Labels: make([]metric.Label, 0, 8)}
			if n := testing.AllocsPerRun(100, func() { r.Describe(&s, &d) }); n != 0 {
				t.Errorf("%+v, %s: %v allocations, want none", w, trust, n)
			}
		}
	}
}

// Strings from the cluster view may be kept; strings from a line are borrowed.
func TestOnlyStringsOfTheClusterViewLast(t *testing.T) {
	r := New(clusterConfig(Namespace), known{}, world{})
	for _, c := range []struct {
		tags, from string
		lasts      bool
	}{
		{"", "web-1", true},
		{"namespace:shop,pod:web-2", "agent", true},
		{"namespace:shop,sluice_object:ingresses/main", "agent", false},
		{"", "batch", false}, // external
	} {
		d := metric.Description{Retainable: !c.lasts}
		s := said{tags: c.tags}.sample(senders[c.from])
		if reason := r.Describe(&s, &d); reason != metric.Applied || d.Retainable != c.lasts {
			t.Errorf("%q from %s: %v, lasting %t", c.tags, c.from, reason, d.Retainable)
		}
	}
}

// A right to read opens series of pods and nothing else, with a credential or by a pod's service account. Without a
// credential it is another right: a pod may fetch what somebody else asks it to.
func TestReading(t *testing.T) {
	granted := rights{}
	for namespace, is := range map[string]metric.Decision{"bank": metric.Allowed, "ingress": metric.Denied} {
		granted[metric.Right{Verb: metric.Read, Namespace: namespace, Series: true}] = is
		granted[metric.Right{Verb: metric.Get, Namespace: namespace, Series: true}] = is
	}
	granted[metric.Right{Verb: metric.Get, Namespace: "mill", Series: true}] = metric.Allowed
	granted[metric.Right{Verb: metric.Read, Namespace: "mill", Series: true}] = metric.Denied
	principal := &metric.Principal{User: "system:serviceaccount:shop:web", Namespace: "shop", Name: "web", Rights: granted}
	pod := *senders["web-1"]
	pod.Reads = principal
	account := *accounts["web"]
	account.Principal = principal
	in := func(namespace string) metric.Object {
		return metric.Object{Resource: "pods", Namespace: namespace, Name: metric.AllObjects}
	}
	for _, c := range []struct {
		name   string
		sender *metric.Sender
		verb   metric.Verb
		about  metric.Object
		want   metric.Reason
	}{
		{"granted to a pod", &pod, metric.Get, in("bank"), metric.Applied},
		{"and external metrics with it", &pod, metric.Get, metric.Object{Namespace: "bank"}, metric.Applied},
		{"granted to an account", &account, metric.Get, in("bank"), metric.Applied},
		{"not granted", &pod, metric.Get, in("ingress"), metric.Identity},
		{"granted with a credential", &account, metric.Get, in("mill"), metric.Applied},
		{"and not without one", &pod, metric.Get, in("mill"), metric.Identity},
		{"not granted to an account", &account, metric.Get, in("ingress"), metric.Identity},
		{"not asked yet", &pod, metric.Get, in("other"), metric.Pending},
		{"its own namespace's external metrics need no right", &pod, metric.Get, metric.Object{Namespace: "shop"}, metric.Applied},
		{"no push", &pod, metric.Create, metric.Object{Namespace: "bank"}, metric.Identity},
		{"no push for a pod", &account, metric.Create, in("bank"), metric.Identity},
		{"no deletion", &pod, metric.Delete, in("bank"), metric.Identity},
		{"no deletion by an account", &account, metric.Delete, in("bank"), metric.Identity},
	} {
		reason, why, needs := New(clusterConfig(Namespace), known{}, world{}).May(c.sender, c.verb, c.about)
		if reason != c.want {
			t.Errorf("%s: %v (%s, needs %v), want %v", c.name, reason, why, needs, c.want)
		}
		if c.verb == metric.Get && reason != metric.Applied && !needs.Series {
			t.Errorf("%s: needs %v, want the right to all series", c.name, needs)
		}
	}
}
