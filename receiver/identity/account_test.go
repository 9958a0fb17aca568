package identity

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

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

// A right to read opens series of pods and nothing else, with a credential or by a pod's service account.
func TestReading(t *testing.T) {
	granted := rights{}
	for namespace, is := range map[string]metric.Decision{"bank": metric.Allowed, "ingress": metric.Denied} {
		granted[metric.Right{Verb: metric.Get, Namespace: namespace, Series: true}] = is
	}
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
