package chart

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// certificateOf reads the certificate of a Secret and the authorities beside it.
func certificateOf(t *testing.T, secret *core.Secret) (*x509.Certificate, *x509.CertPool) {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data[core.TLSCertKey], secret.Data[core.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(secret.Name, err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		t.Fatal(secret.Name, "has no CA")
	}
	return pair.Leaf, authorities
}

// kedaHosts are the names by which KEDA may reach Sluice.
var kedaHosts = []string{
	"sluice-keda.sluice", "sluice-keda.sluice.svc", "sluice-keda.sluice.svc.cluster.local",
	"sluice-keda-headless.sluice", "sluice-keda-headless.sluice.svc", "sluice-keda-headless.sluice.svc.cluster.local",
}

// TestKEDACertificates: each end accepts the other's certificate. Sluice's is valid for each name
// of its Services, KEDA's has a name that the configuration allows.
func TestKEDACertificates(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "keda.enabled=true,keda.namespace=scaling,keda.tls.generated.days=30"))
	server, ofClients := certificateOf(t, byName[*core.Secret](t, objects, "sluice-keda-tls"))
	secret := byName[*core.Secret](t, objects, "sluice-keda-client")
	client, ofServers := certificateOf(t, secret)
	for _, host := range kedaHosts {
		if _, err := server.Verify(x509.VerifyOptions{DNSName: host, Roots: ofServers}); err != nil {
			t.Errorf("KEDA refuses Sluice's certificate as %s: %v", host, err)
		}
	}
	if secret.Namespace != "scaling" {
		t.Errorf("KEDA's certificate is in namespace %s", secret.Namespace)
	}
	names, _ := fileOf(t, objects)["keda-client-names"].([]any)
	if len(names) != 1 || names[0] != "keda-operator.scaling.svc" {
		t.Fatalf("keda-client-names is %v", names)
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := client.Verify(x509.VerifyOptions{DNSName: names[0].(string), Roots: ofClients, KeyUsages: usage}); err != nil {
		t.Errorf("Sluice refuses KEDA's certificate: %v", err)
	}
	for _, other := range []string{"sluice-tls"} {
		if _, authorities := certificateOf(t, byName[*core.Secret](t, objects, other)); authorities.Equal(ofClients) {
			t.Errorf("the CA of %s makes clients of KEDA's port, too", other)
		}
	}
}

// TestKEDACertificatesOfCertManager: two Certificates of one issuer, each in its end's namespace.
func TestKEDACertificatesOfCertManager(t *testing.T) {
	const platform = "keda.tls.certManager.issuerRef.name=platform,keda.tls.certManager.issuerRef.kind=ClusterIssuer"
	for set, issuer := range map[string]string{
		platform:                "platform",
		"keda.namespace=sluice": "sluice-keda-ca",
	} {
		objects := strictly(t, mustRender(t, "", "keda.enabled=true,keda.tls.source=cert-manager,"+set))
		server := byName[*certmanager.Certificate](t, objects, "sluice-keda-tls")
		client := byName[*certmanager.Certificate](t, objects, "sluice-keda-client")
		if !slices.Equal(server.Spec.DNSNames, kedaHosts) || server.Spec.IssuerRef != client.Spec.IssuerRef || server.Spec.IssuerRef.Name != issuer {
			t.Errorf("%s: %+v, %+v", set, server.Spec, client.Spec)
		}
		names, _ := fileOf(t, objects)["keda-client-names"].([]any)
		if len(names) == 0 || fmt.Sprint(names) != fmt.Sprint(client.Spec.DNSNames) || !slices.Contains(client.Spec.Usages, certmanager.UsageClientAuth) {
			t.Errorf("%s: KEDA's certificate has the names %v: Sluice wants one of %v", set, client.Spec.DNSNames, names)
		}
		if client.Spec.Duration == nil || client.Spec.Duration.Hours() < 2*365*24 || server.Spec.Duration.Hours() > 100*24 {
			t.Errorf("%s: valid for %v and %v: KEDA loses its streams at each renewal of its own", set, server.Spec.Duration, client.Spec.Duration)
		}
		if set == platform && (server.Namespace != "sluice" || client.Namespace != "keda") {
			t.Errorf("the Certificates are in %s and %s", server.Namespace, client.Namespace)
		}
	}
}

// TestKEDASecretsAreUsed: the pod mounts Sluice's end of each source, and the
// ClusterTriggerAuthentication names KEDA's.
func TestKEDASecretsAreUsed(t *testing.T) {
	for set, want := range map[string][2]string{
		"keda.tls.source=generated": {"sluice-keda-tls", "sluice-keda-client"},
		"keda.tls.source=cert-manager,keda.tls.certManager.issuerRef.name=a,keda.tls.certManager.issuerRef.kind=ClusterIssuer": {"sluice-keda-tls", "sluice-keda-client"},
		"keda.tls.source=secret,keda.tls.secret.name=ours,keda.authentication.secret=theirs":                                   {"ours", "theirs"},
	} {
		objects := strictly(t, mustRender(t, "", "keda.enabled=true,"+set))
		pod, file := only[*apps.StatefulSet](t, objects).Spec.Template.Spec, fileOf(t, objects)
		for _, setting := range []string{"keda-tls-cert-file", "keda-tls-key-file", "keda-tls-client-ca-file"} {
			if path := fmt.Sprint(file[setting]); !mounts(pod, path, want[0]) {
				t.Errorf("%s: %s is %s, which is not mounted from the Secret %s", set, setting, path, want[0])
			}
		}
		if got := secretsOf(t, only[*unstructured.Unstructured](t, objects)); !slices.Equal(got, []string{"caCert=" + want[1] + "/ca.crt", "tlsClientCert=" + want[1] + "/tls.crt", "tlsClientKey=" + want[1] + "/tls.key"}) {
			t.Errorf("%s: the ClusterTriggerAuthentication has %v", set, got)
		}
	}
	for _, object := range strictly(t, mustRender(t, "", "keda.enabled=true,keda.authentication.create=false")) {
		if one, ok := object.(*unstructured.Unstructured); ok {
			t.Errorf("%s %s is there", one.GetKind(), one.GetName())
		}
	}
}

func secretsOf(t *testing.T, authentication *unstructured.Unstructured) (all []string) {
	t.Helper()
	references, _, err := unstructured.NestedSlice(authentication.Object, "spec", "secretTargetRef")
	must(t, err)
	for _, one := range references {
		of := one.(map[string]any)
		all = append(all, fmt.Sprintf("%s=%s/%s", of["parameter"], of["name"], of["key"]))
	}
	return all
}

// TestKEDAServices: one with an address and one without lead to ready replicas, on the port where
// the pod listens.
func TestKEDAServices(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "keda.enabled=true,networkPolicy.enabled=true,keda.namespace=scaling"))
	template := only[*apps.StatefulSet](t, objects).Spec.Template
	for name, headless := range map[string]bool{"sluice-keda": false, "sluice-keda-headless": true} {
		service := byName[*core.Service](t, objects, name)
		port := service.Spec.Ports[0]
		if (service.Spec.ClusterIP == core.ClusterIPNone) != headless || service.Spec.PublishNotReadyAddresses || port.AppProtocol == nil || *port.AppProtocol != "grpc" || port.Port != 9095 {
			t.Errorf("%s: %+v", name, service.Spec)
		}
		on := slices.IndexFunc(template.Spec.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == port.TargetPort.StrVal })
		if on < 0 || fmt.Sprintf(":%d", template.Spec.Containers[0].Ports[on].ContainerPort) != fileOf(t, objects)["keda-address"] {
			t.Errorf("%s leads to no port of the pod", name)
		}
		if !meetsLabels(service.Spec.Selector, template.Labels) {
			t.Errorf("%s selects %v, which the pod has not", name, service.Spec.Selector)
		}
	}
	for _, rule := range only[*networking.NetworkPolicy](t, objects).Spec.Ingress {
		if rule.Ports[0].Port.StrVal == "keda" {
			if got := rule.From[0].NamespaceSelector.MatchLabels; len(rule.From) != 1 || got["kubernetes.io/metadata.name"] != "scaling" {
				t.Errorf("the network policy opens the port to %+v", rule.From)
			}
			return
		}
	}
	t.Error("the network policy closes the port")
}

func meetsLabels(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// TestKEDACertificatesAreKept: an upgrade changes neither end, unless one is missing, was made for
// other names, or is of another CA.
func TestKEDACertificatesAreKept(t *testing.T) {
	secret := func(namespace, name, ca, hosts string) map[string]any {
		made := core.Secret{
			TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: marked(name, "sluice", "sluice"),
			Data:       map[string][]byte{"ca.crt": []byte(ca), "tls.crt": []byte("old crt"), "tls.key": []byte("old key")},
		}
		made.Annotations["sluice.dev/certificate-for"] = hosts
		return map[string]any{"/api/v1/namespaces/" + namespace + "/secrets/" + name: made}
	}
	both := func(one, other map[string]any) map[string]any {
		for path, object := range other {
			one[path] = object
		}
		return one
	}
	hosts := strings.Join(kedaHosts, " ") + " keda-operator.keda.svc"
	server := func() map[string]any { return secret("sluice", "sluice-keda-tls", "old ca", hosts) }
	for name, c := range map[string]struct {
		has  map[string]any
		kept bool
	}{
		"both":        {both(server(), secret("keda", "sluice-keda-client", "old ca", hosts)), true},
		"KEDA's gone": {server(), false},
		"other names": {both(server(), secret("keda", "sluice-keda-client", "old ca", "a.svc")), false},
		"another CA":  {both(server(), secret("keda", "sluice-keda-client", "new ca", hosts)), false},
	} {
		text, err := renderInto(t, standIn(t, c.has), "--set=keda.enabled=true,keda.authentication.create=false")
		if err != nil {
			t.Fatal(text)
		}
		objects := strictly(t, text)
		ours, theirs := byName[*core.Secret](t, objects, "sluice-keda-tls"), byName[*core.Secret](t, objects, "sluice-keda-client")
		if kept := string(ours.Data["tls.key"]) == "old key" && string(theirs.Data["tls.key"]) == "old key"; kept != c.kept {
			t.Errorf("%s: kept %v, want %v", name, kept, c.kept)
		}
		if string(ours.Data["ca.crt"]) != string(theirs.Data["ca.crt"]) {
			t.Errorf("%s: the two ends have different CAs", name)
		}
	}
}

// TestKEDAOwnsExternalMetrics: beside KEDA's adapter, an installation that would register the group
// is refused, and one that serves it without is not.
func TestKEDAOwnsExternalMetrics(t *testing.T) {
	cluster := standIn(t, apiService("v1beta1.external.metrics.k8s.io", "keda", "keda-operator-metrics-apiserver", "keda"))
	const enabled = "--set=keda.enabled=true,keda.authentication.create=false"
	if said, err := renderInto(t, cluster, enabled); err == nil || !strings.Contains(said, "externalMetrics.register=false") {
		t.Errorf("%v: %s", err, said)
	}
	said, err := renderInto(t, cluster, enabled, "--set=externalMetrics.register=false")
	if err != nil {
		t.Fatal(said)
	}
	for _, api := range apiServices(strictly(t, said)) {
		if api.Spec.Group == "external.metrics.k8s.io" {
			t.Error("the group is registered")
		}
	}
}

// notesOf are the NOTES of an installation.
func notesOf(t *testing.T, set string) string {
	t.Helper()
	stdout, stderr, err := helm(t, os.DevNull, "install", release, folder, "--dry-run=client", "--set", set)
	if err != nil {
		t.Fatal(stderr)
	}
	_, notes, _ := strings.Cut(stdout, "\nNOTES:\n")
	return notes
}

// TestNotesOfKEDA: the notes have a trigger that works, and name the value that leaves the group to
// KEDA if both own it.
func TestNotesOfKEDA(t *testing.T) {
	const both = "Set externalMetrics.register=false"
	for set, says := range map[string]map[string]bool{
		"keda.enabled=true":                                  {"dns:///sluice-keda.sluice.svc:9095": true, "{name: sluice, kind: ClusterTriggerAuthentication}": true, both: true},
		"keda.enabled=true,replicas=2":                       {"dns:///sluice-keda-headless.sluice.svc:9095": true},
		"keda.enabled=true,externalMetrics.register=false":   {"served and not registered": true, both: false},
		"keda.enabled=true,keda.authentication.create=false": {"ClusterTriggerAuthentication": false, "tlsClientCert": true},
		"keda.enabled=true,keda.tls.source=secret,keda.tls.secret.name=a,keda.authentication.secret=b": {"rollout restart -n keda deployment/keda-operator": true},
		"externalMetrics.register=false,keda.namespace=events":                                         {"KEDA": false},
	} {
		notes := notesOf(t, set)
		for text, want := range says {
			if strings.Contains(notes, text) != want {
				t.Errorf("%s: %q is there: %v\n%s", set, text, !want, notes)
			}
		}
	}
}

// TestExamplesOfKEDA: KEDA's definitions take each example, and every ScaledObject names the
// address and the ClusterTriggerAuthentication that the chart makes.
func TestExamplesOfKEDA(t *testing.T) {
	files, err := filepath.Glob("../../examples/keda-*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		for _, object := range strictly(t, read(t, file)) {
			one, ok := object.(*unstructured.Unstructured)
			if !ok || one.GetKind() != "ScaledObject" {
				continue
			}
			for _, trigger := range triggersOf(t, one) {
				reference := trigger.AuthenticationRef
				if !slices.Contains([]string{"external", "external-push"}, trigger.Type) || reference.Name != release || reference.Kind != "ClusterTriggerAuthentication" ||
					trigger.Metadata["scalerAddress"] != "dns:///sluice-keda.sluice.svc:9095" {
					t.Errorf("%s: %+v", file, trigger)
				}
			}
		}
	}
}

// kedaTrigger is a trigger of a ScaledObject.
type kedaTrigger struct {
	Type, Name, MetricType string
	UseCachedMetrics       bool
	Metadata               map[string]string
	AuthenticationRef      struct{ Name, Kind string }
}

func triggersOf(t *testing.T, scaledObject runtime.Object) []kedaTrigger {
	t.Helper()
	text, err := json.Marshal(scaledObject)
	must(t, err)
	var of struct {
		Spec struct{ Triggers []kedaTrigger }
	}
	must(t, json.Unmarshal(text, &of))
	if len(of.Spec.Triggers) == 0 {
		t.Errorf("a ScaledObject has no triggers: %s", text)
	}
	return of.Spec.Triggers
}
