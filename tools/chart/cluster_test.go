package chart

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kindsOf the stand-in are those that the chart asks for or makes, by group and version.
var kindsOf = map[string][]meta.APIResource{
	"v1": {
		{Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Name: "services", Kind: "Service", Namespaced: true},
		{Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true},
	},
	"apps/v1": {
		{Name: "statefulsets", Kind: "StatefulSet", Namespaced: true},
		{Name: "deployments", Kind: "Deployment", Namespaced: true},
	},
	"apiregistration.k8s.io/v1": {{Name: "apiservices", Kind: "APIService"}},
	"cert-manager.io/v1": {
		{Name: "certificates", Kind: "Certificate", Namespaced: true},
		{Name: "issuers", Kind: "Issuer", Namespaced: true},
	},
	"policy/v1":               {{Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true}},
	"apiextensions.k8s.io/v1": {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
	"admissionregistration.k8s.io/v1": {
		{Name: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy"},
		{Name: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding"},
	},
	"rbac.authorization.k8s.io/v1": {
		{Name: "clusterroles", Kind: "ClusterRole"},
		{Name: "clusterrolebindings", Kind: "ClusterRoleBinding"},
		{Name: "roles", Kind: "Role", Namespaced: true},
		{Name: "rolebindings", Kind: "RoleBinding", Namespaced: true},
	},
}

// discovery is what the stand-in says that it has.
func discovery() map[string]any {
	groups := meta.APIGroupList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	answers := map[string]any{
		"/version": map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
		"/api":     meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":    &groups,
	}
	for groupVersion, kinds := range kindsOf {
		for i := range kinds {
			kinds[i].Verbs = []string{"get"}
		}
		path := "/api/v1"
		if group, version, ok := strings.Cut(groupVersion, "/"); ok {
			path = "/apis/" + groupVersion
			one := meta.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: version}
			groups.Groups = append(groups.Groups, meta.APIGroup{
				Name: group, Versions: []meta.GroupVersionForDiscovery{one}, PreferredVersion: one,
			})
		}
		answers[path] = meta.APIResourceList{
			TypeMeta:     meta.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
			GroupVersion: groupVersion,
			APIResources: kinds,
		}
	}
	return answers
}

// standIn answers, of the Kubernetes API, what Helm asks for the chart: discovery, and the objects
// that are handed to it by path. It returns a kubeconfig.
func standIn(t *testing.T, objects map[string]any) (kubeconfig string) {
	t.Helper()
	answers := discovery()
	for path, object := range objects {
		answers[path] = object
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: meta.StatusReasonNotFound, Code: 404}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: ""}}], clusters: [{name: c, cluster: {server: "` + server.URL + `"}}]}`
	must(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return kubeconfig
}

// renderInto renders as an installation does: with a look into the cluster, where Helm itself
// refuses to touch what is there without its marks.
func renderInto(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"template", release, folder, "--dry-run=server", "--disable-openapi-validation"}, args...)
	stdout, stderr, err := helm(t, kubeconfig, args...)
	return stdout + stderr, err
}

// marked is the metadata of an object that Helm installed for a release; of nobody's if that is
// empty.
func marked(name, releaseNamespace, release string) meta.ObjectMeta {
	if release == "" {
		return meta.ObjectMeta{Name: name}
	}
	return meta.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": releaseNamespace},
	}
}

// apiService is one that answers by a Service, SERVICE.NAMESPACE, installed by the release of that
// namespace.
func apiService(name, namespace, service, release string) map[string]any {
	version, group, _ := strings.Cut(name, ".")
	return map[string]any{"/apis/apiregistration.k8s.io/v1/apiservices/" + name: registration.APIService{
		TypeMeta:   meta.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		ObjectMeta: marked(name, namespace, release),
		Spec: registration.APIServiceSpec{
			Group: group, Version: version,
			Service: &registration.ServiceReference{Namespace: namespace, Name: service},
		},
	}}
}

// TestGroupOfAnotherProduct: a cluster has one owner of an API group. Who installs a second is told
// who has it, and which value leaves it to that one.
func TestGroupOfAnotherProduct(t *testing.T) {
	const custom1, custom2, external = "v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"
	for _, c := range []struct {
		name string
		has  map[string]any
		args string
		says []string // empty: it is installed
	}{
		{name: "nobody has one"},
		{
			name: "external belongs to KEDA, by Helm",
			has:  apiService(external, "keda", "keda-operator-metrics-apiserver", "keda"),
			says: []string{external, "Helm release keda/keda", "Service keda/keda-operator-metrics-apiserver", "externalMetrics.enabled=false"},
		},
		{
			name: "the same, and the group is left to KEDA",
			has:  apiService(external, "keda", "keda-operator-metrics-apiserver", "keda"),
			args: "--set externalMetrics.enabled=false",
		},
		{
			name: "custom belongs to a Service that no Helm installed",
			has:  apiService(custom2, "monitoring", "prometheus-adapter", ""),
			says: []string{custom2, "belongs to Service monitoring/prometheus-adapter", "customMetrics.enabled=false"},
		},
		{
			name: "a release of the same name in another namespace",
			has:  apiService(custom1, "other", "sluice-api", "sluice"),
			says: []string{"Helm release other/sluice", "customMetrics.enabled=false"},
		},
		{
			name: "custom belongs to prometheus-adapter, and is served without being registered",
			has:  apiService(custom1, "monitoring", "prometheus-adapter", "adapter"),
			args: "--set customMetrics.register=false",
		},
		{name: "it is ours: an upgrade", has: apiService(custom1, "sluice", "sluice-api", "sluice")},
		{name: "it is ours, from before a change of its name", has: apiService(custom1, "sluice", "metrics-api", "sluice")},
		{name: "it is ours, applied without Helm", has: apiService(custom1, "sluice", "sluice-api", ""), args: "--take-ownership"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said, err := renderInto(t, standIn(t, c.has), strings.Fields(c.args)...)
			if len(c.says) == 0 {
				if err != nil {
					t.Errorf("refused: %s", said)
				}
				return
			}
			if err == nil {
				t.Fatal("it was rendered: want a refusal")
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("the refusal does not say %q:\n%s", want, said)
				}
			}
		})
	}
}

// TestKeptDefinitions: definitions that a former release left are taken over as README.md says, which names all.
func TestKeptDefinitions(t *testing.T) {
	readme := read(t, folder+"/README.md")
	_, command, _ := strings.Cut(readme, "kubectl annotate --overwrite crd ")
	left := func(namespace, name string) map[string]any {
		all := map[string]any{}
		for _, object := range strictly(t, mustRender(t, "")) {
			if one, ok := object.(*apiextensions.CustomResourceDefinition); ok {
				if !strings.Contains(command, one.Name) {
					t.Errorf("README.md does not say how %s is taken over", one.Name)
				}
				one.ObjectMeta = marked(one.Name, namespace, name)
				all["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+one.Name] = one
			}
		}
		if len(all) != 4 {
			t.Fatalf("%d definitions, want 4", len(all))
		}
		return all
	}
	for _, c := range []struct {
		namespace, name, args string
		refused               bool
	}{
		{"sluice", "sluice", "", false},
		{"sluice", "former", "", true},
		{"former", "sluice", "", true},
		{"former", "former", "--take-ownership", false},
		{"former", "former", "--set customResources.create=false", false},
	} {
		said, err := renderInto(t, standIn(t, left(c.namespace, c.name)), strings.Fields(c.args)...)
		if (err != nil) != c.refused || c.refused && !strings.Contains(said, "invalid ownership metadata") {
			t.Errorf("%+v: %v %.300s", c, err, said)
		}
	}
}

// TestGeneratedCertificateIsKept: an upgrade changes neither certificate nor caBundle, unless it is
// for another name or a part of it is missing.
func TestGeneratedCertificateIsKept(t *testing.T) {
	made := func(host string, keys ...string) map[string]any {
		secret := core.Secret{
			TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: marked("sluice-tls", "sluice", "sluice"),
			Data:       map[string][]byte{},
		}
		secret.Annotations["sluice.dev/certificate-for"] = host
		for _, key := range keys {
			secret.Data[key] = []byte("old " + key)
		}
		return map[string]any{"/api/v1/namespaces/sluice/secrets/sluice-tls": secret}
	}
	for _, c := range []struct {
		name string
		has  map[string]any
		kept bool
	}{
		{"it is there", made("sluice-api.sluice.svc", "ca.crt", "tls.crt", "tls.key"), true},
		{"for another name", made("metrics-api.sluice.svc", "ca.crt", "tls.crt", "tls.key"), false},
		{"without the CA", made("sluice-api.sluice.svc", "tls.crt", "tls.key"), false},
		{"none is there", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := renderInto(t, standIn(t, c.has))
			if err != nil {
				t.Fatal(text)
			}
			objects := strictly(t, text)
			secret := only[*core.Secret](t, objects)
			if kept := string(secret.Data["tls.crt"]) == "old tls.crt" && string(secret.Data["tls.key"]) == "old tls.key"; kept != c.kept {
				t.Errorf("kept %v, want %v", kept, c.kept)
			}
			for _, api := range apiServices(objects) {
				if string(api.Spec.CABundle) != string(secret.Data["ca.crt"]) {
					t.Errorf("%s trusts another CA than the Secret's", api.Name)
				}
			}
		})
	}
}
