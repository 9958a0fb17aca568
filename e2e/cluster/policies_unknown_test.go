package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Without the right to list policies, nobody reads an external metric: the answer is 503 and names the
// missing right. Metrics of pods are answered. With the right the policies count again.
func policyUnreadable(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "unreadable")
	p.apply(t, ns, "guard", `{rules: [{metric: "secret.*", deny: true}]}`)
	alice, token := p.reader(t, "alice"), p.tokenFor(t, ns, "pusher", "sluice", nil)
	p.mayListPolicies(t, false)
	p.sluice.Stop() // policies that were read stay in force
	p.sluice.Start()
	const user = `User "system:serviceaccount:sluice:sluice" cannot list resource "externalmetricpolicies"`
	within(t, func() error {
		_, err := alice.Get(t.Context(), external+"/namespaces/"+ns+"/jobs")
		if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusServiceUnavailable {
			return fmt.Errorf("%v, want a 503", err)
		}
		for _, part := range []string{user, `apiGroups ["sluice.dev"], resources ["externalmetricpolicies"], verbs [list, watch]`} {
			if !strings.Contains(err.Error(), part) {
				return fmt.Errorf("%w, want %s", err, part)
			}
		}
		return nil
	})
	p.wantPush(t, token, "GET", "/v1/namespaces/"+ns+"/external/jobs?label=queue=mail&label=zone=a", "", http.StatusServiceUnavailable, "may not read the policies")
	within(t, func() error { // the API server takes the other group for away a little longer
		if _, err := alice.Get(t.Context(), custom+"/namespaces/"+ns+"/pods/*/jobs"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("a metric of pods: %w, want that there is none", err)
		}
		return nil
	})
	p.mayListPolicies(t, true)
	within(t, func() error { // the next attempt is half a minute later at most
		_, err := alice.Get(t.Context(), external+"/namespaces/"+ns+"/jobs")
		return err
	})
	wantQuery(t, alice, ns, "secret.keys", "", "rules[0] of externalmetricpolicy/guard")
}

// mayListPolicies gives Sluice the right to list policies of namespaces, or takes it away, and waits until
// the API server decides so.
func (p *policed) mayListPolicies(t *testing.T, may bool) {
	t.Helper()
	roles := p.Kubernetes.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "sluice", metav1.GetOptions{})
	must(t, err)
	changed := 0
	for i := range role.Rules {
		rule := &role.Rules[i]
		if !slices.Contains(rule.Resources, clusterPolicies.Resource) || !slices.Contains(rule.Verbs, "list") {
			continue
		}
		changed++
		rule.Resources = slices.DeleteFunc(rule.Resources, func(name string) bool { return name == namespacePolicies.Resource })
		if may {
			rule.Resources = append(rule.Resources, namespacePolicies.Resource)
		}
	}
	if changed != 1 {
		t.Fatalf("%d rules of Sluice's ClusterRole are about policies, want 1", changed)
	}
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[bool]string{true: "yes", false: "no"}[may]
	within(t, func() error {
		got, _ := p.TryKubectl(t, "auth", "can-i", "list", "externalmetricpolicies.sluice.dev", "-A", "--as=system:serviceaccount:sluice:sluice")
		if strings.TrimSpace(got) != want {
			return fmt.Errorf("may list: %s, want %s", got, want)
		}
		return nil
	})
}

// Kinds that are installed while Sluice runs without them count within seconds. WithoutTheKinds, before,
// restarts Sluice without them.
func policyInstalledLater(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "later")
	alice := p.reader(t, "alice")
	wantQuery(t, alice, ns, "secret.keys", "", "")
	for _, object := range render(t, "values.yaml") {
		if name := object.GetName(); object.GetKind() == "CustomResourceDefinition" && strings.Contains(name, "externalmetricpolicies") {
			apply(t, p.ControlPlane, []*unstructured.Unstructured{object})
			p.Kubectl(t, "wait", "--for=condition=Established", "--timeout=5m", "crd/"+name)
		}
	}
	policy := p.file(t, "apiVersion: sluice.dev/v1alpha1\nkind: ExternalMetricPolicy\nmetadata: {name: guard}\nspec: {rules: [{metric: \"secret.*\", deny: true}]}\n")
	within(t, func() error { // kubectl may not know the kind yet
		_, err := p.TryKubectl(t, "apply", "-n", ns, "-f", policy)
		return err
	})
	within(t, func() error {
		if got := query(t, alice, ns, "secret.keys", ""); !strings.Contains(got, "rules[0] of externalmetricpolicy/guard") {
			return fmt.Errorf("the query says %q", got)
		}
		return nil
	})
	p.awaitAccepted(t, ns, "guard", "True")
}
