package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// known stands in for the API server's list of resources.
type known struct{}

func (known) Canonical(resource string) (string, bool, error) {
	switch resource {
	case "pod", "pods":
		return "pods", true, nil
	case "ingresses", "ingresses.networking.k8s.io":
		return "ingresses.networking.k8s.io", true, nil
	case "nodes", "namespaces":
		return resource, false, nil
	case "services":
		return "services", true, nil
	}
	return "", false, errors.New("unknown resource")
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name, tags, object, labels string
		rejected                   metric.Reason
	}{
		{name: "no claim is external", tags: "a:b", object: "external", labels: "{a=b}"},
		{name: "no tags", tags: "", object: "external", labels: "{}"},
		{name: "pod and namespace", tags: "pod:web-1,code:200,namespace:shop", object: "pods/web-1 in shop", labels: "{code=200}"},
		{name: "OpenTelemetry", tags: "k8s.pod.name:web-1,k8s.namespace.name:shop", object: "pods/web-1 in shop", labels: "{}"},
		{name: "Datadog", tags: "pod_name:web-1,kube_namespace:shop,x:y", object: "pods/web-1 in shop", labels: "{x=y}"},
		{name: "a namespace alone is a label", tags: "namespace:shop", object: "external", labels: "{namespace=shop}"},
		{name: "a pod alone is a label", tags: "pod:web-1", object: "external", labels: "{pod=web-1}"},
		{name: "only the deciding rule's labels leave", tags: "pod:a,namespace:b,pod_name:c,kube_namespace:d",
			object: "pods/a in b", labels: "{kube_namespace=d,pod_name=c}"},
		{name: "a name that no pod can have is no claim", tags: "pod:a/b,namespace:shop", object: "external",
			labels: "{namespace=shop,pod=a/b}"},
		{name: "the longest name", tags: "namespace:shop,pod:" + strings.Repeat("a", 253),
			object: "pods/" + strings.Repeat("a", 253) + " in shop", labels: "{}"},
		{name: "a name that is too long is no claim", tags: "namespace:shop,pod:" + strings.Repeat("a", 254), object: "external",
			labels: "{namespace=shop,pod=" + strings.Repeat("a", 254) + "}"},
		{name: "explicit goes before the pod", tags: "sluice_object:ingresses/main,pod:a,namespace:shop",
			object: "ingresses.networking.k8s.io/main in shop", labels: "{pod=a}"},
		{name: "explicit with group is the same object", tags: "sluice_object:ingresses.networking.k8s.io/main,namespace:shop",
			object: "ingresses.networking.k8s.io/main in shop", labels: "{}"},
		{name: "default namespace", tags: "sluice_object:pods/a", object: "pods/a in default", labels: "{}"},
		{name: "cluster-scoped keeps the namespace label", tags: "sluice_object:nodes/n1,namespace:shop", object: "nodes/n1",
			labels: "{namespace=shop}"},
		{name: "explicitly external", tags: "sluice_object:external,pod:a,namespace:shop", object: "external",
			labels: "{namespace=shop,pod=a}"},
		{name: "external of a namespace", tags: "sluice_object:external/shop,a:b", object: "external in shop", labels: "{a=b}"},
		{name: "external of no namespace", tags: "sluice_object:external/", rejected: metric.Identity},
		{name: "unknown resource", tags: "sluice_object:things/a", rejected: metric.Identity},
		{name: "no object name", tags: "sluice_object:pods", rejected: metric.Identity},
		{name: "the same tag twice keeps the first", tags: "a:1,a:2", object: "external", labels: "{a=1}"},
		{name: "the same claim twice keeps the first", tags: "pod:a,namespace:b,pod:c", object: "pods/a in b", labels: "{}"},
		{name: "a tag without a value", tags: "flag,a:b:c", object: "external", labels: "{a=b:c,flag=}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d metric.Description
			s := metric.Sample{Tags: []byte(c.tags), Separator: ':'}
			rejected := New(DefaultConfig(), known{}, nil).Describe(&s, &d)
			if rejected != c.rejected {
				t.Fatalf("rejected: %s, want %s", rejected, c.rejected)
			}
			if rejected != metric.Applied {
				return
			}
			if got := d.Object.String(); got != c.object {
				t.Errorf("object: %s, want %s", got, c.object)
			}
			if got := metric.NewLabels(d.Labels).String(); got != c.labels {
				t.Errorf("labels: %s, want %s", got, c.labels)
			}
		})
	}
}

// Sample.About takes precedence over all claims and removes no label.
func TestAboutTakesPrecedence(t *testing.T) {
	var d metric.Description
	s := metric.Sample{Object: &metric.Object{Resource: "nodes", Name: "n1"},
		Fields: []metric.Label{{Key: "pod", Value: "a"}, {Key: "namespace", Value: "b"}}}
	if r := New(DefaultConfig(), known{}, nil).Describe(&s, &d); r != metric.Applied || d.Object != *s.Object || len(d.Labels) != 2 {
		t.Fatalf("%s, %s, %v", r, d.Object, d.Labels)
	}
}

func TestDescribeAllocatesNothing(t *testing.T) {
	r := New(DefaultConfig(), known{}, nil)
	s := metric.Sample{Tags: []byte("pod:web-1,code:200,namespace:shop,b:c,a:d"), Separator: ':'}
	d := metric.Description{Labels: make([]metric.Label, 0, 8)}
	if n := testing.AllocsPerRun(100, func() { r.Describe(&s, &d) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	c := Config{
		DefaultNamespace:  "a/b",
		Trust:             9,
		TrustedForwarders: []string{"10.0.0.0/8", "10.0.0.1", "fd00::/8", "ingress/nginx", "unix", "::ffff:10.0.0.0/104", "10.0.0.0/99", "Bad/Name", ""},
		ExternalWriters:   []string{"shop", "fe80::1%eth0", "::ffff:0:0/90"},
	}
	text := fmt.Sprint(c.Validate())
	for _, want := range []string{
		`DefaultNamespace is "a/b"`, "Trust is 9", `TrustedForwarders has "10.0.0.0/99"`, `TrustedForwarders has "Bad/Name"`, `TrustedForwarders has ""`,
		`ExternalWriters has "shop"`, `ExternalWriters has "fe80::1%eth0"`, `ExternalWriters has "::ffff:0:0/90"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if n := strings.Count(text, "\n") + 1; n != 8 {
		t.Errorf("%d faults, want 8: %s", n, text)
	}
}

func TestTrustByName(t *testing.T) {
	for _, trust := range []Trust{Open, Namespace, Strict} {
		var got Trust
		if err := got.UnmarshalText([]byte(trust.String())); err != nil || got != trust {
			t.Errorf("%s: %s, %v", trust, got, err)
		}
	}
	var trust Trust
	if err := trust.UnmarshalText([]byte("everybody")); err == nil || !strings.Contains(err.Error(), "open, namespace, strict") {
		t.Error(err)
	}
}

// rights are the answers that the cluster gave.
type rights map[metric.Right]metric.Decision

func (r rights) Check(right metric.Right) metric.Decision { return r[right] }

var accounts = map[string]*metric.Sender{
	"web":      showing("shop", "web", ""),
	"web-1":    showing("shop", "web", "uid-web-1"),
	"batch":    showing("shop", "batch", "uid-batch"),
	"gone":     showing("shop", "web", "uid-nobody"),
	"nginx":    showing("ingress", "nginx", ""),
	"teller":   showing("bank", "default", ""),
	"outsider": showing("", "", ""),
	// Its address is a trusted forwarder's, but the credential decides.
	"behind": {Key: 30, Address: netip.MustParseAddr("10.8.0.1"), Known: true, Principal: showing("shop", "web", "").Principal},
}

// showing is a sender with a credential. It has rights in bank, none outside of namespaces, and
// nobody asked about the rest.
func showing(namespace, name, pod string) *metric.Sender {
	user := "system:serviceaccount:" + namespace + ":" + name
	if name == "" {
		user = "sluice:basic:outsider"
	}
	granted := rights{}
	for _, verb := range []metric.Verb{metric.Create, metric.Get} {
		granted[metric.Right{Verb: verb, Namespace: "bank"}] = metric.Allowed
		granted[metric.Right{Verb: verb}] = metric.Denied
		granted[metric.Right{Verb: verb, Namespace: "ingress"}] = metric.Denied
	}
	return &metric.Sender{
		Key: 20, Address: netip.MustParseAddr("10.0.0.9"), Known: true,
		Principal: &metric.Principal{User: user, Namespace: namespace, Name: name, PodUID: pod, Rights: granted},
	}
}

// Objects that an account may describe, under the trust modes open, namespace and strict.
func TestAccounts(t *testing.T) {
	const (
		no, wait = "identity", "pending"
		self     = "pods/web-1 in shop uid-web-1! {}"
	)
	same := func(s string) [3]string { return [3]string{s, s, s} }
	ingress := func(ns string) *metric.Object {
		return &metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: ns, Name: "main"}
	}
	for _, c := range []struct {
		name, sender string
		said         said
		want         [3]string
	}{
		{"a bound token's pod speaks of itself", "web-1", said{}, same(self)},
		{"and claims itself", "web-1", said{tags: "pod:web-1,namespace:shop"}, same(self)},
		{"or is about something else by its annotation", "batch", said{}, [3]string{"external in shop {}", "external in shop {}", wait}},
		{"its pod is not known yet", "gone", said{}, same(wait)},
		{"and may be the one it claims", "gone", said{tags: "pod:web-9,namespace:shop"}, same(wait)},
		{"no pod's token is about nothing", "web", said{}, [3]string{"external in shop {}", "external in shop {}", wait}},
		{"its namespace's objects", "web", said{about: ingress("shop")}, [3]string{"ingresses.networking.k8s.io/main in shop uid-shopmain! {}", "ingresses.networking.k8s.io/main in shop uid-shopmain! {}", wait}},
		{"its namespace itself", "web", said{about: &metric.Object{Resource: "namespaces", Name: "shop"}}, [3]string{"namespaces/shop uid-shop! {}", "namespaces/shop uid-shop! {}", wait}},
		{"what does not exist in it", "web", said{about: &metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "none"}}, [3]string{no, no, wait}},
		{"a pod of its own account", "web", said{tags: "pod:web-2,namespace:shop"}, [3]string{"pods/web-2 in shop uid-web-2! {}", no, no}},
		{"another pod, granted what is no pod", "web", said{tags: "pod:teller,namespace:bank"}, [3]string{"pods/teller in bank uid-teller! {}", no, no}},
		{"granted: external", "web", said{about: &metric.Object{Namespace: "bank"}}, same("external in bank {}")},
		{"granted: object", "web", said{about: ingress("bank")}, same("ingresses.networking.k8s.io/main in bank uid-bankmain! {}")},
		{"granted: the namespace", "web", said{about: &metric.Object{Resource: "namespaces", Name: "bank"}}, same("namespaces/bank uid-bank! {}")},
		{"rejected", "web", said{about: &metric.Object{Namespace: "ingress"}}, [3]string{"external in ingress {}", no, no}},
		{"rejected: the cluster", "web", said{about: &metric.Object{}}, [3]string{"external {}", no, no}},
		{"rejected: a node", "web", said{about: &metric.Object{Resource: "nodes", Name: "n1"}}, [3]string{"nodes/n1 {}", no, no}},
		{"not asked yet", "web", said{about: &metric.Object{Namespace: "other"}}, [3]string{"external in other {}", wait, wait}},
		{"an outsider in a namespace", "outsider", said{about: &metric.Object{Namespace: "bank"}}, same("external in bank {}")},
		{"an outsider, of nothing", "outsider", said{}, [3]string{"external {}", no, no}},
		{"a listed forwarder's account", "nginx", said{tags: "pod:web-2,namespace:shop"}, same("pods/web-2 in shop uid-web-2! {}")},
		{"a listed writer's account", "teller", said{about: &metric.Object{}}, same("external {}")},
		{"the address of a forwarder says nothing", "behind", said{tags: "pod:web-2,namespace:shop"}, [3]string{"pods/web-2 in shop uid-web-2! {}", no, no}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, trust := range []Trust{Open, Namespace, Strict} {
				r := New(clusterConfig(trust), known{}, world{})
				s := c.said.sample(accounts[c.sender])
				if got := told(r, &s); got != c.want[i] {
					t.Errorf("%s: %s (%s), want %s", trust, got, r.Explain(&s), c.want[i])
				}
			}
		})
	}
}

// A rejection names the missing right, if a right would help.
func TestMissingRights(t *testing.T) {
	r := New(clusterConfig(Namespace), known{}, world{})
	right := func(ns string) metric.Right { return metric.Right{Verb: metric.Create, Namespace: ns} }
	for _, c := range []struct {
		sender *metric.Sender
		about  metric.Object
		needs  metric.Right
		says   string
	}{
		{accounts["web"], metric.Object{Namespace: "ingress"}, right("ingress"),
			`samples.sluice.dev is forbidden: User "system:serviceaccount:shop:web" cannot create resource "samples" in API group "sluice.dev" in the namespace "ingress"`},
		{accounts["web"], metric.Object{}, right(""), `in API group "sluice.dev" at the cluster scope`},
		{accounts["web"], metric.Object{Namespace: "other"}, right("other"), `not known yet whether User "system:serviceaccount:shop:web" may create samples.sluice.dev in the namespace "other"`},
		{accounts["web"], metric.Object{Resource: "namespaces", Name: "ingress"}, right("ingress"), "forbidden"},
		{accounts["web"], web2.Object(), metric.Right{}, "may only describe"},
		{accounts["web"], metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "none"}, metric.Right{}, "does not exist"},
		{senders["web-1"], metric.Object{Namespace: "bank"}, right("bank"), "may only describe"},
		{senders["node"], metric.Object{Namespace: "bank"}, right("bank"), "neither the address of one pod"},
		{senders["web-1"], web2.Object(), metric.Right{}, "may only describe"},
	} {
		s := metric.Sample{Sender: c.sender, Object: &c.about}
		if got := r.Needs(&s); got != c.needs {
			t.Errorf("%v: needs %v, want %v", c.about, got, c.needs)
		}
		if got := r.Explain(&s); !strings.Contains(got, c.says) {
			t.Errorf("%v: %s, want %s", c.about, got, c.says)
		}
	}
	if reason, why, needs := r.May(accounts["web"], metric.Delete, metric.Object{Resource: "namespaces", Name: "*"}); reason != metric.Pending || needs != (metric.Right{Verb: metric.Delete}) {
		t.Errorf("all namespaces: %v %s, needs %v", reason, why, needs)
	}
}
