package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hasPort is the number of a container's port.
func hasPort(container core.Container, name string) int32 {
	i := slices.IndexFunc(container.Ports, func(port core.ContainerPort) bool { return port.Name == name })
	if i < 0 {
		return 0
	}
	return container.Ports[i].ContainerPort
}

// TestPortsOfChoice: what Sluice listens on, the container's ports and the Services follow the
// values.
func TestPortsOfChoice(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "api.port=10250,operations.port=8443"))
	container := only[*apps.StatefulSet](t, objects).Spec.Template.Spec.Containers[0]
	if api, operations := hasPort(container, "api"), hasPort(container, "operations"); api != 10250 || operations != 8443 {
		t.Errorf("the container has the ports %d and %d", api, operations)
	}
	config := only[*core.ConfigMap](t, objects).Data["sluice.yaml"]
	if !strings.Contains(config, "api-address: :10250\n") || !strings.Contains(config, "ops-address: :8443\n") {
		t.Errorf("the configuration is\n%s", config)
	}
	for _, object := range objects {
		service, ok := object.(*core.Service)
		if !ok {
			continue
		}
		switch port := service.Spec.Ports[0]; service.Name {
		case "sluice-api":
			if port.Port != 443 || port.TargetPort != intstr.FromString("api") {
				t.Errorf("the API's Service leads from %d to %v", port.Port, port.TargetPort)
			}
		case "sluice-operations":
			if port.Port != 8443 || port.TargetPort != intstr.FromString("operations") {
				t.Errorf("the operations Service leads from %d to %v", port.Port, port.TargetPort)
			}
		}
	}
}

// TestGroupsServedWithoutBeingRegistered: the configuration serves the group, its readers have
// their rights, and no APIService leads to it.
func TestGroupsServedWithoutBeingRegistered(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "customMetrics.register=false"))
	if all := apiServices(objects); len(all) != 2 || all[0].Spec.Group != "external.metrics.k8s.io" {
		t.Errorf("%d APIServices: want those of external metrics and of lists", len(all))
	}
	both := mustRender(t, "", "customMetrics.register=false,externalMetrics.register=false,inspect.enabled=false,tls.source=secret,tls.secret.name=own")
	if strings.Contains(both, "APIService\n") {
		t.Error("an APIService was rendered")
	}
	for _, want := range []string{"api-custom-metrics: true", "api-external-metrics: true", "apiGroups: [custom.metrics.k8s.io]"} {
		if !strings.Contains(both, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestServerKnowsWhichGroupsAreUnregistered: it reads no metric of them for autoscalers, since another server answers those.
func TestServerKnowsWhichGroupsAreUnregistered(t *testing.T) {
	for set, want := range map[string][]any{
		"":                               nil,
		"externalMetrics.register=false": {"external.metrics.k8s.io"},
		"customMetrics.register=false":   {"custom.metrics.k8s.io"},
		"customMetrics.register=false,externalMetrics.register=false":                          {"custom.metrics.k8s.io", "external.metrics.k8s.io"},
		"externalMetrics.enabled=false,externalMetrics.register=false":                         nil,
		"externalMetrics.register=false,config.api-max-in-flight=7,apiServices.ownGroups=true": {"external.metrics.k8s.io"},
	} {
		var sets []string
		if set != "" {
			sets = append(sets, set)
		}
		got, _ := fileOf(t, strictly(t, mustRender(t, "", sets...)))["api-unregistered"].([]any)
		if !slices.Equal(got, want) {
			t.Errorf("%s: api-unregistered is %v, want %v", set, got, want)
		}
	}
}

// TestNodesNetwork: DNS of the cluster still works there, unless the values say otherwise.
func TestNodesNetwork(t *testing.T) {
	for set, want := range map[string]core.DNSPolicy{
		"hostNetwork=false":                       "",
		"hostNetwork=true":                        core.DNSClusterFirstWithHostNet,
		"hostNetwork=true,dnsPolicy=ClusterFirst": core.DNSClusterFirst,
		"dnsPolicy=Default":                       core.DNSDefault,
	} {
		spec := only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", set))).Spec.Template.Spec
		if spec.DNSPolicy != want || spec.HostNetwork != strings.HasPrefix(set, "hostNetwork=true") {
			t.Errorf("%s: DNS policy %q, host network %v", set, spec.DNSPolicy, spec.HostNetwork)
		}
	}
}

// TestConsole: on the pod's loopback, unless the configuration has another address; not on the
// node's.
func TestConsole(t *testing.T) {
	for set, want := range map[string]string{
		"console.enabled=true":                              "console-address: 127.0.0.1:9096\n",
		"config.console-address=:9096":                      "console-address: :9096\n",
		"console.enabled=false":                             "",
		"hostNetwork=true":                                  "",
		"hostNetwork=true,config.console-address=[::1]:909": "console-address: '[::1]:909'\n",
	} {
		config := only[*core.ConfigMap](t, strictly(t, mustRender(t, "", set))).Data["sluice.yaml"]
		if has := strings.Contains(config, "console-address"); has != (want != "") || !strings.Contains(config, want) {
			t.Errorf("%s: want %q in\n%s", set, want, config)
		}
	}
}

// TestExistingClaim: the pod mounts it, and the StatefulSet makes none.
func TestExistingClaim(t *testing.T) {
	set := only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", "persistence.existingClaim=old")))
	if len(set.Spec.VolumeClaimTemplates) > 0 || set.Spec.PersistentVolumeClaimRetentionPolicy != nil {
		t.Error("the StatefulSet claims a volume of its own")
	}
	i := slices.IndexFunc(set.Spec.Template.Spec.Volumes, func(v core.Volume) bool { return v.Name == "data" })
	if i < 0 || set.Spec.Template.Spec.Volumes[i].PersistentVolumeClaim.ClaimName != "old" {
		t.Error("the pod does not mount the claim")
	}
}

// TestChangeOfClaims: the API server refuses to change the claims of a StatefulSet, with a message
// that names no way out.
func TestChangeOfClaims(t *testing.T) {
	running := func(templates ...core.PersistentVolumeClaim) map[string]any {
		set := runningSet(1, "serve")
		set.Spec.VolumeClaimTemplates = templates
		return map[string]any{"/apis/apps/v1/namespaces/sluice/statefulsets/sluice": set}
	}
	claims, none := running(core.PersistentVolumeClaim{}), running()
	for _, c := range []struct {
		name, set string
		has       map[string]any
		says      string // empty: it is upgraded
	}{
		{"claims stay", "persistence.size=9Gi", claims, ""},
		{"none stays none", "persistence.enabled=false", none, ""},
		{"an existing claim stays", "persistence.existingClaim=old", none, ""},
		{"to an existing claim", "persistence.existingClaim=old", claims, "has claims of its own, and these values want none"},
		{"to none", "persistence.enabled=false", claims, "has claims of its own, and these values want none"},
		{"from none", "persistence.size=9Gi", none, "has no claims of its own, and these values want them"},
	} {
		said, err := renderInto(t, standIn(t, c.has), "--set", c.set)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: refused: %s", c.name, said)
		case c.says != "" && (err == nil || !strings.Contains(said, c.says) || !strings.Contains(said, "-n sluice delete statefulset sluice --cascade=orphan")):
			t.Errorf("%s: %v: want a refusal that says %q and the command:\n%s", c.name, err, c.says, said)
		}
	}
}

// TestRegistriesOfTheParentChart: global.imageRegistry replaces a registry and nothing else.
func TestRegistriesOfTheParentChart(t *testing.T) {
	for _, c := range []struct{ registry, repository, want string }{
		{"", "ghcr.io/example/sluice", "ghcr.io/example/sluice:v1"},
		{"mirror.example", "sluice", "mirror.example/sluice:v1"},
		{"mirror.example", "example/sluice", "mirror.example/example/sluice:v1"},
		{"mirror.example", "ghcr.io/example/sluice", "mirror.example/example/sluice:v1"},
		{"mirror.example/proxy/", "localhost:5000/sluice", "mirror.example/proxy/sluice:v1"},
		{"mirror.example", "localhost/sluice", "mirror.example/sluice:v1"},
	} {
		set := "image.tag=v1,image.repository=" + c.repository + ",global.imageRegistry=" + c.registry
		if got := only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", set))).Spec.Template.Spec.Containers[0].Image; got != c.want {
			t.Errorf("%s: the image is %s, want %s", set, got, c.want)
		}
	}
}

// TestAnnotationsOnEveryObject: the common ones are on each object, and an object's own go before
// them.
func TestAnnotationsOnEveryObject(t *testing.T) {
	for name, values := range valuesFiles(t) {
		for _, object := range strictly(t, mustRender(t, values, "commonAnnotations.common=yes,serviceAccount.annotations.common=own")) {
			described, err := meta.Accessor(object)
			must(t, err)
			kind := object.GetObjectKind().GroupVersionKind().Kind
			want := "yes"
			if kind == "ServiceAccount" && !strings.HasSuffix(described.GetName(), "-agent") {
				want = "own"
			}
			if got := described.GetAnnotations()["common"]; got != want && !strings.HasPrefix(described.GetName(), "beside") && described.GetName() != "pushed-metrics-text" {
				t.Errorf("%s: %s %s has the annotations %v", name, kind, described.GetName(), slices.Sorted(maps.Keys(described.GetAnnotations())))
			}
		}
	}
}

// TestNamespaceOverride: every object with a namespace is there, and so are the names that the
// certificates and subjects have.
func TestNamespaceOverride(t *testing.T) {
	text := mustRender(t, "", "namespaceOverride=metrics,replicas=2,networkPolicy.enabled=true,tls.source=cert-manager")
	for _, object := range strictly(t, text) {
		described, err := meta.Accessor(object)
		must(t, err)
		if namespace := described.GetNamespace(); namespace != "" && namespace != "metrics" && namespace != "kube-system" {
			t.Errorf("%s is in namespace %s", described.GetName(), namespace)
		}
	}
	for _, other := range []string{"sluice-api.sluice.svc", "namespace: sluice\n", "sluice/sluice-tls", "replica-0.sluice.svc"} {
		if strings.Contains(text, other) {
			t.Errorf("%q names the release's namespace", other)
		}
	}
}

// TestCollectorSecretsAreMounted: each file of the export is in the Secret of its value.
func TestCollectorSecretsAreMounted(t *testing.T) {
	const all = "config.export-otlp=https://collector:4318/v1/metrics,exportOTLP.caSecret=ca,exportOTLP.clientSecret=client,exportOTLP.headersSecret=headers"
	objects := strictly(t, mustRender(t, "", all))
	pod, file := only[*apps.StatefulSet](t, objects).Spec.Template.Spec, fileOf(t, objects)
	for setting, secret := range map[string]string{
		"export-otlp-ca-file": "ca", "export-otlp-client-cert-file": "client", "export-otlp-client-key-file": "client", "export-otlp-headers-file": "headers",
	} {
		if path := fmt.Sprint(file[setting]); !mounts(pod, path, secret) {
			t.Errorf("%s is %s, which is not mounted from the Secret %s", setting, path, secret)
		}
	}
	if said, err := render(t, "", "config.export-otlp=http://localhost:4318/v1/metrics,exportOTLP.headersSecret=headers"); err != nil {
		t.Errorf("headers without TLS, as to a Collector in the same pod, are refused: %s", said)
	}
}
