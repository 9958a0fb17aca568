package builtin

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestCanonical(t *testing.T) {
	r := New()
	for _, c := range []struct {
		in, want   string
		namespaced bool
		err        error
	}{
		{"pods", "pods", true, nil},
		{"pod", "pods", true, nil},
		{"Pod", "pods", true, nil},
		{"services", "services", true, nil},
		{"endpoints", "endpoints", true, nil},
		{"namespaces", "namespaces", false, nil},
		{"namespace", "namespaces", false, nil},
		{"nodes", "nodes", false, nil},
		{"persistentvolumes", "persistentvolumes", false, nil},
		{"persistentvolumeclaims", "persistentvolumeclaims", true, nil},
		{"deployments", "deployments.apps", true, nil},
		{"deployment", "deployments.apps", true, nil},
		{"deployments.apps", "deployments.apps", true, nil},
		{"deployment.apps", "deployments.apps", true, nil},
		{"deployments.extensions", "deployments.apps", true, nil},
		{"jobs.batch", "jobs.batch", true, nil},
		{"cronjobs", "cronjobs.batch", true, nil},
		{"ingresses", "ingresses.networking.k8s.io", true, nil},
		{"ingress", "ingresses.networking.k8s.io", true, nil},
		{"ingresses.networking.k8s.io", "ingresses.networking.k8s.io", true, nil},
		{"ingress.extensions", "ingresses.networking.k8s.io", true, nil},
		{"networkpolicies.extensions", "networkpolicies.networking.k8s.io", true, nil},
		{"horizontalpodautoscalers", "horizontalpodautoscalers.autoscaling", true, nil},
		{"storageclasses", "storageclasses.storage.k8s.io", false, nil},
		{"clusterroles", "clusterroles.rbac.authorization.k8s.io", false, nil},
		{"events.events.k8s.io", "events.events.k8s.io", true, nil},
		{"events", "", false, metric.ErrInvalidQuery},
		{"event", "", false, metric.ErrInvalidQuery},
		{"", "", false, metric.ErrNotFound},
		{"po", "", false, metric.ErrNotFound},
		{"deployments.batch", "", false, metric.ErrNotFound},
		{"widgets.example.com", "", false, metric.ErrNotFound},
		{"listoptions", "", false, metric.ErrNotFound},
		{"podlists", "", false, metric.ErrNotFound},
		{"tokenreviews", "", false, metric.ErrNotFound},
		{"statuses", "", false, metric.ErrNotFound},
	} {
		canonical, namespaced, err := r.Canonical(c.in)
		if canonical != c.want || namespaced != c.namespaced || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v, %v; want %q, %v, %v", c.in, canonical, namespaced, err, c.want, c.namespaced, c.err)
		}
	}
}

func TestNewestKind(t *testing.T) {
	r := New()
	for in, want := range map[string]string{
		"deployments":              "apps/v1, Kind=Deployment",
		"hpa":                      "",
		"horizontalpodautoscalers": "autoscaling/v2, Kind=HorizontalPodAutoscaler",
		"ingresses":                "networking.k8s.io/v1, Kind=Ingress",
		"pods":                     "/v1, Kind=Pod",
	} {
		if o, err := r.find(in); err == nil && o.kind.String() != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s, %v; want %s", in, o.kind, err, want)
		}
	}
}

// client-go's typed clients know the name and scope of every resource. Those from its scheme must
// agree.
func TestResourcesAgreeWithTypedClients(t *testing.T) {
	r := New()
	checked := 0
	clients := reflect.TypeFor[kubernetes.Interface]()
	for i := range clients.NumMethod() {
		version := clients.Method(i).Type
		if version.NumOut() != 1 || version.Out(0).Kind() != reflect.Interface {
			continue
		}
		group := version.Out(0)
		for j := range group.NumMethod() {
			resource := group.Method(j)
			get, ok := resource.Type.Out(0).MethodByName("Get")
			if !ok || get.Type.NumOut() != 2 {
				continue // not readable, so no metric can describe it
			}
			if _, listed := resource.Type.Out(0).MethodByName("List"); !listed {
				continue
			}
			object := reflect.New(get.Type.Out(0).Elem()).Interface().(runtime.Object)
			kinds, _, err := scheme.Scheme.ObjectKinds(object)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.ToLower(resource.Name)
			if name == "events" && kinds[0].Group == "" {
				continue // ambiguous by name; see TestCanonical
			}
			if kinds[0].Group != "" {
				name += "." + kinds[0].Group
			}
			canonical, namespaced, err := r.Canonical(name)
			wantNamespaced := resource.Type.NumIn() == 1
			if kinds[0].Group != extensions && canonical != name || err != nil || namespaced != wantNamespaced {
				t.Errorf("%s: %q, namespaced=%v, %v; the typed client says namespaced=%v", name, canonical, namespaced, err, wantNamespaced)
			}
			checked++
		}
	}
	if checked < 60 {
		t.Errorf("only %d resources were found to compare with", checked)
	}
}

// newestKinds are the listable kinds of the scheme, each in its newest version.
func newestKinds() map[schema.GroupKind]schema.GroupVersionKind {
	known := scheme.Scheme.AllKnownTypes()
	newest := map[schema.GroupKind]schema.GroupVersionKind{}
	for kind, goType := range known {
		_, isObject := reflect.New(goType).Interface().(metav1.Object)
		_, isListed := known[kind.GroupVersion().WithKind(kind.Kind+"List")]
		if !isObject || !isListed {
			continue
		}
		was, ok := newest[kind.GroupKind()]
		if !ok || version.CompareKubeAwareVersionStrings(kind.Version, was.Version) > 0 {
			newest[kind.GroupKind()] = kind
		}
	}
	return newest
}

func TestKindsAreThoseOfTheScheme(t *testing.T) {
	want := newestKinds()
	for _, row := range kinds {
		kind := schema.GroupVersionKind{Group: row.group, Version: row.version, Kind: row.kind}
		if want[kind.GroupKind()] != kind {
			t.Errorf("%s is not the newest of client-go's scheme: %s", kind, want[kind.GroupKind()])
		}
		delete(want, kind.GroupKind())
	}
	for _, kind := range want {
		t.Errorf("%s is missing in kinds", kind)
	}
}
