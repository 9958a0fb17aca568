package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const keda = "externalMetrics.route[0].name=keda,externalMetrics.route[0].service.namespace=keda," +
	"externalMetrics.route[0].service.name=keda-operator-metrics-apiserver,externalMetrics.route[0].scaledObjects=true"

// authority is what stands for one in PEM.
func authority(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(path, []byte("-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----\n"), 0o600))
	return "externalMetrics.route[0].caBundle=" + path
}

func TestRouteRefusals(t *testing.T) {
	for set, says := range map[string][]string{
		keda: {"provider keda has no authority: caBundle and caSecret are empty"},
		keda + ",externalMetrics.route[0].caSecret=kedaorg-certs":                                                {"Secret keda/kedaorg-certs is not there or has no ca.crt", "helm template"},
		strings.ReplaceAll(keda, "scaledObjects=true", "scaledObjects=false"):                                    {"provider keda has no metric"},
		keda + ",externalMetrics.enabled=false":                                                                  {"externalMetrics.route: has providers, and externalMetrics.enabled is false"},
		keda + ",networkPolicy.enabled=true":                                                                     {"networkPolicy.extraEgress must let Sluice reach them"},
		keda + "," + strings.ReplaceAll(keda, "[0]", "[1]"):                                                      {"two providers have the name keda"},
		"externalMetrics.route[0].name=Keda,externalMetrics.route[0].service.name=a":                             {"/externalMetrics/route/0/name", "namespace"},
		keda + ",externalMetrics.route[0].caBundle=abc":                                                          {"/externalMetrics/route/0/caBundle"},
		keda + ",externalMetrics.route[0].insecure=true":                                                         {"insecure", "not allowed"},
		strings.NewReplacer("=keda,", "=sluice,", "keda-operator-metrics-apiserver", "sluice-api").Replace(keda): {"is this release's own Service sluice-api", "requests would go round"},
		"config.api-routes-file=/a":                                                                              {"config.api-routes-file", "set externalMetrics.route"},
		"config.api-own-groups=true":                                                                             {"config.api-own-groups", "set apiServices.ownGroups"},
		"extraVolumes[0].name=routes":                                                                            {"/extraVolumes/0"},
	} {
		stdout, stderr, err := helm(t, os.DevNull, "template", release, folder, "--namespace", "sluice", "--set", set)
		for _, want := range says {
			if err == nil || !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: %v %.500s\nwant a refusal that says %q", set, err, stdout+stderr, want)
			}
		}
	}
}

// operator is KEDA's, with arguments of its container.
func operator(args ...string) map[string]any {
	return map[string]any{"/apis/apps/v1/namespaces/keda/deployments": apps.DeploymentList{
		TypeMeta: meta.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"},
		Items: []apps.Deployment{{
			TypeMeta: meta.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta.ObjectMeta{Namespace: "keda", Name: "keda-operator"},
			Spec: apps.DeploymentSpec{Template: core.PodTemplateSpec{Spec: core.PodSpec{Containers: []core.Container{{Name: "keda-operator", Command: []string{"/keda"}, Args: args}}}}},
		}},
	}}
}

// While KEDA's operator writes its authority into the APIService, the chart does not register the group.
func TestRouteBesideAnOperatorThatPatches(t *testing.T) {
	for _, c := range []struct {
		args    []string
		set     string
		refused bool
	}{
		{[]string{"--leader-elect", "--enable-cert-rotation=true"}, "", true},
		{[]string{"--enable-cert-rotation", "--enable-apiservice-patching=true"}, "", true},
		{[]string{"--enable-cert-rotation=true", "--enable-apiservice-patching=false"}, "", false},
		{[]string{"--enable-cert-rotation=false"}, "", false},
		{[]string{"--enable-cert-rotation=true"}, ",externalMetrics.register=false", false},
	} {
		said, err := renderInto(t, standIn(t, operator(c.args...)), "--set", keda+c.set, "--set-file", authority(t))
		if (err != nil) != c.refused || c.refused && !strings.Contains(said, "Deployment keda/keda-operator writes KEDA's authority") {
			t.Errorf("%v%s: %v %.400s", c.args, c.set, err, said)
		}
	}
}

// The authority comes from the provider's own Secret, as the cluster has it, and its key stays there. The APIService of
// the group outlives the release, so that it is never nobody's. A route does not take the group from its owner.
func TestRouteIntoACluster(t *testing.T) {
	const external = "v1beta1.external.metrics.k8s.io"
	has := apiService(external, "sluice", "sluice-api", "sluice")
	has["/api/v1/namespaces/keda/secrets/kedaorg-certs"] = core.Secret{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta.ObjectMeta{Namespace: "keda", Name: "kedaorg-certs"}, Data: map[string][]byte{"ca.crt": []byte("KEDA's authority"), "tls.key": []byte("secret")}}
	set := keda + ",externalMetrics.route[0].caSecret=kedaorg-certs"
	said, err := renderInto(t, standIn(t, has), "--set", set)
	if err != nil {
		t.Fatal(said)
	}
	objects := strictly(t, said)
	for _, c := range allOf[*core.ConfigMap](objects) {
		if c.Name == "sluice-routes" && (c.Data["keda.crt"] != "KEDA's authority\n" || !strings.Contains(c.Data["routes.yaml"], "url: https://keda-operator-metrics-apiserver.keda.svc:443")) {
			t.Errorf("%v", c.Data)
		}
	}
	if strings.Contains(said, "secret\n") {
		t.Error("KEDA's key is in the manifests")
	}
	for _, api := range allOf[*registration.APIService](objects) {
		if kept := api.Annotations["helm.sh/resource-policy"] == "keep"; kept != (api.Name == external) {
			t.Errorf("%s outlives the release: %v", api.Name, kept)
		}
	}
	taken := apiService(external, "keda", "keda-operator-metrics-apiserver", "keda")
	if said, err = renderInto(t, standIn(t, taken), "--set", keda, "--set-file", authority(t)); err == nil || !strings.Contains(said, "belongs to Helm release keda/keda") {
		t.Errorf("a group that is KEDA's: %v %.300s", err, said)
	}
}

func allOf[T runtime.Object](objects []runtime.Object) (found []T) {
	for _, object := range objects {
		if one, ok := object.(T); ok {
			found = append(found, one)
		}
	}
	return found
}
