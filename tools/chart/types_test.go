package chart

import (
	"slices"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	security "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// strictly decodes manifests into the types of their own APIs: an unknown or doubled field is an
// error.
func strictly(t *testing.T, manifests string) []runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, registration.AddToScheme, monitoring.AddToScheme, certmanager.AddToScheme,
		gateway.Install, apiextensions.AddToScheme,
	} {
		must(t, add(known))
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known, json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for _, text := range strings.Split(manifests, "\n---\n") {
		if !strings.Contains(text, "\nkind: ") {
			continue
		}
		if ofKEDA(text) {
			objects = append(objects, kedaObject(t, text))
			continue
		}
		object, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		objects = append(objects, object)
	}
	return objects
}

// only is the one object of a type.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if one, ok := object.(T); ok {
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T: want one", len(found), *new(T))
	}
	return found[0]
}

// ofTheCluster are the kinds among ours that have no namespace.
var ofTheCluster = []string{"ClusterRole", "ClusterRoleBinding", "APIService", "ClusterTriggerAuthentication",
	"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

func TestManifestsAreOfTheirTypes(t *testing.T) {
	for name, values := range valuesFiles(t) {
		t.Run(name, func(t *testing.T) {
			text := mustRender(t, values)
			objects := strictly(t, text)
			if written := strings.Count("\n"+text, "\nkind: "); written != len(objects) {
				t.Errorf("%d objects were rendered, %d were read", written, len(objects))
			}
			seen := map[string]bool{}
			for _, object := range objects {
				described, err := meta.Accessor(object)
				must(t, err)
				kind := object.GetObjectKind().GroupVersionKind().Kind
				id := kind + " " + described.GetNamespace() + "/" + described.GetName()
				if seen[id] {
					t.Errorf("%s is there twice", id)
				}
				seen[id] = true
				if (described.GetNamespace() == "") != slices.Contains(ofTheCluster, kind) {
					t.Errorf("%s: its kind and namespace %q do not agree", id, described.GetNamespace())
				}
				if described.GetLabels()["app.kubernetes.io/instance"] != release {
					t.Errorf("%s has no label of the release", id)
				}
			}
		})
	}
}

// TestPodIsRestricted asks the code of Kubernetes' own admission. A pod on the node's network
// breaks the rules of host namespaces and host ports, and no other.
func TestPodIsRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	for name, values := range valuesFiles(t) {
		template := only[*apps.StatefulSet](t, strictly(t, mustRender(t, values))).Spec.Template
		level := security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}
		for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
			if !result.Allowed && !(template.Spec.HostNetwork && strings.HasPrefix(result.ForbiddenReason, "host")) {
				t.Errorf("%s: PodSecurity restricted forbids it: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
}

// TestFieldsThatAreLeftToTheCluster: OpenShift assigns users and groups of its own to a pod that
// names none.
func TestFieldsThatAreLeftToTheCluster(t *testing.T) {
	pod := func(set ...string) *core.PodSecurityContext {
		return only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", set...))).Spec.Template.Spec.SecurityContext
	}
	c := pod("podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null,podSecurityContext.fsGroup=1000680000")
	if c.RunAsUser != nil || c.RunAsGroup != nil || c.FSGroup == nil || *c.FSGroup != 1000680000 || c.RunAsNonRoot == nil || !*c.RunAsNonRoot {
		t.Errorf("the security context is %+v", c)
	}
	if c := pod("podSecurityContext=null"); c != nil {
		t.Errorf("the security context is %+v, want none", c)
	}
}

// TestPortsMeet: each Service selects the pod, by ports that the container has.
func TestPortsMeet(t *testing.T) {
	objects := strictly(t, mustRender(t, ""))
	template := only[*apps.StatefulSet](t, objects).Spec.Template
	has := map[string]core.Protocol{}
	for _, port := range template.Spec.Containers[0].Ports {
		has[port.Name] = port.Protocol
	}
	services := 0
	for _, object := range objects {
		service, ok := object.(*core.Service)
		if !ok {
			continue
		}
		services++
		for label, value := range service.Spec.Selector {
			if template.Labels[label] != value {
				t.Errorf("Service %s selects %s=%s, which the pod has not", service.Name, label, value)
			}
		}
		for _, port := range service.Spec.Ports {
			if protocol, ok := has[port.TargetPort.StrVal]; !ok || protocol != port.Protocol {
				t.Errorf("Service %s: %s %s is no port of the container", service.Name, port.Protocol, port.TargetPort.StrVal)
			}
		}
	}
	if services != 3 {
		t.Errorf("%d Services: want those for pushes, the API and operations", services)
	}
}
