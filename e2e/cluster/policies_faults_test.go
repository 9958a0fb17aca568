package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// file writes a manifest for kubectl.
func (p *policed) file(t *testing.T, manifest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	must(t, os.WriteFile(path, []byte(manifest), 0o600))
	return path
}

// Kubernetes itself rejects policies with a fault.
func policyInvalid(t *testing.T, p *policed) {
	ns := p.Namespace(t, "invalid")
	long := strings.Repeat("x", 129)
	for spec, says := range map[string]string{
		`{}`:          "spec.rules: Required",
		`{rules: []}`: "at least 1",
		`{rules: [` + strings.TrimSuffix(strings.Repeat(`{metric: a, deny: true}, `, 65), ", ") + `]}`: "at most 64",
		`{rules: [{deny: true}]}`:                                                                                   "metric: Required",
		`{rules: [{metric: "", deny: true}]}`:                                                                       "at least 1",
		`{rules: [{metric: ` + long + `, deny: true}]}`:                                                             "128",
		`{rules: [{metric: ` + strings.Repeat("é", 65) + `, deny: true}]}`:                                          "at most 128 bytes",
		`{rules: [{metric: "a(", deny: true}]}`:                                                                     "error parsing regexp",
		`{rules: [{metric: "a)|(b", deny: true}]}`:                                                                  "error parsing regexp",
		`{rules: [{metric: "\\Qa.b", deny: true}]}`:                                                                 "error parsing regexp",
		`{rules: [{metric: a}]}`:                                                                                    "exactly one of selector and deny",
		`{rules: [{metric: a, deny: false}]}`:                                                                       "exactly one of selector and deny",
		`{rules: [{metric: a, deny: true, selector: {}}]}`:                                                          "exactly one of selector and deny",
		`{rules: [{metric: a, selector: {matchLabels: {q: "a/b"}}}]}`:                                               "should match",
		`{rules: [{metric: a, selector: {matchExpressions: [{key: q, operator: Gt, values: ["1"]}]}}]}`:             "Unsupported value",
		`{rules: [{metric: a, selector: {matchExpressions: [{key: q, operator: In}]}}]}`:                            "values must not be empty",
		`{rules: [{metric: a, selector: {matchExpressions: [{key: q, operator: Exists, values: [a]}]}}]}`:           "empty for Exists",
		`{rules: [{metric: a, deny: true}], subjects: [{kind: Robot, name: r}]}`:                                    "Unsupported value",
		`{rules: [{metric: a, deny: true}], subjects: [{kind: ServiceAccount, name: r}]}`:                           "must name the namespace",
		`{rules: [{metric: a, deny: true}], subjects: [{kind: User, name: ""}]}`:                                    "at least 1",
		`{rules: [{metric: "a.*", selector: {}}, {metric: b, deny: false, selector: {matchLabels: {q: "a.b-c"}}}]}`: "",
	} {
		_, err := p.TryKubectl(t, "create", "--dry-run=server", "-n", ns, "-f",
			p.file(t, "apiVersion: sluice.dev/v1alpha1\nkind: ExternalMetricPolicy\nmetadata: {name: faulty}\nspec: "+spec+"\n"))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v\nwant %q", spec, err, says)
		}
	}
}

// A policy with a fault, as an older CustomResourceDefinition lets one through, denies what it
// names and says so in its status and an Event.
func policyFaulty(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "faulty")
	p.Kubectl(t, "patch", "crd", "externalmetricpolicies.sluice.dev", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec","value":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}]`)
	policy := func(name, spec string) string {
		return "apiVersion: sluice.dev/v1alpha1\nkind: ExternalMetricPolicy\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	within(t, func() error {
		_, err := p.TryKubectl(t, "apply", "-n", ns, "-f", p.file(t, policy("both", `{rules: [{metric: "secret.*", deny: true, selector: {}}]}`)))
		return err
	})
	says := p.awaitAccepted(t, ns, "both", "False")
	if !strings.Contains(says, "rules[0]") || !strings.Contains(says, "must have one of them") {
		t.Errorf("the condition says %q", says)
	}
	alice := p.reader(t, "alice")
	wantQuery(t, alice, ns, "secret.keys", "", "which has a fault: rules[0]")
	wantQuery(t, alice, ns, "jobs", "", "")
	wantAdmit(t, alice, ns, asking("web", "secret.keys", ""), "rules[0]")
	wantAdmit(t, alice, ns, asking("web", "jobs", ""), "")
	within(t, func() error {
		out := p.Kubectl(t, "get", "events", "-n", ns, "--field-selector=reason=FaultyPolicy,type=Warning", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(out, "must have one of them") {
			return fmt.Errorf("the Events are %q", out)
		}
		return nil
	})
	// An expression that cannot be read matches every metric, for the server and for admission.
	p.Apply(t, ns, policy("unreadable", `{rules: [{metric: "a(", deny: true}]}`))
	p.awaitAccepted(t, ns, "unreadable", "False")
	wantQuery(t, alice, ns, "jobs", "", "rules[0] of externalmetricpolicy/unreadable")
	wantAdmit(t, alice, ns, asking("web", "jobs", ""), "error parsing regexp")
	p.Kubectl(t, "delete", "emp", "unreadable", "-n", ns)
	p.Apply(t, ns, policy("both", `{rules: [{metric: "secret.*", deny: true}]}`))
	p.awaitAccepted(t, ns, "both", "True")
	wantQuery(t, alice, ns, "jobs", "", "")
}

// Without the CustomResourceDefinitions everything else works, and it is logged once. Admission of
// a missing kind fails closed.
func policyMissing(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "missing")
	p.Kubectl(t, "delete", "crd", "externalmetricpolicies.sluice.dev", "clusterexternalmetricpolicies.sluice.dev")
	alice := p.reader(t, "alice")
	// The API server may still remember the kinds, so this asks with a kind that never was.
	for _, object := range render(t, "values.yaml") {
		if object.GetName() == "sluice-policies" {
			text, err := yaml.Marshal(object.Object)
			must(t, err)
			p.Apply(t, "", strings.NewReplacer("sluice-policies", "without-kind", "ExternalMetricPolicy", "NeverInstalled").Replace(string(text)))
		}
	}
	wantAdmit(t, alice, ns, asking("web", "jobs", ""), "without-kind")
	p.Kubectl(t, "delete", "validatingadmissionpolicybinding", "without-kind")
	wantAdmit(t, alice, ns, asking("web", "jobs", ""), "")
	p.sluice.Stop()
	before := len(p.sluice.Said())
	p.sluice.Start()
	within(t, func() error {
		_, err := alice.Get(t.Context(), external+"/namespaces/"+ns+"/secret.keys")
		return err
	})
	said := p.sluice.Said()
	if len(said) >= before {
		said = said[before:]
	}
	if n := strings.Count(said, "a custom resource is not used"); n != 2 {
		t.Errorf("it says %d times that a custom resource is not used, want once for each\n%s", n, said)
	}
}
