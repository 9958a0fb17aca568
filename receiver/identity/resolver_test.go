package identity

import (
	"errors"
	"fmt"
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
		if got, err := ParseTrust(trust.String()); err != nil || got != trust {
			t.Errorf("%s: %s, %v", trust, got, err)
		}
	}
	var trust Trust
	if err := trust.UnmarshalText([]byte("everybody")); err == nil || !strings.Contains(err.Error(), "open, namespace, strict") {
		t.Error(err)
	}
}
