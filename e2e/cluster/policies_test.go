package cluster

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

var (
	namespacePolicies = schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "externalmetricpolicies"}
	clusterPolicies   = schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "clusterexternalmetricpolicies"}
)

// policyTests follow the design's sentences about ExternalMetricPolicy. Those about a single verdict are tested in
// adapter/policy, and SameVerdicts holds admission to them. The control plane is their own: some policies concern
// the whole cluster.
var policyTests = []struct {
	name string
	run  func(*testing.T, *policed)
}{
	{"PerNamespace", policyPerNamespace},
	{"PerUser", policyPerUser},
	{"Admission", policyAdmission},
	{"StoredAutoscalersStayWritable", policyStored},
	{"AuthorMustRead", policyAuthor},
	{"AuthorsOfRules", policyRuleAuthor},
	{"OtherReaders", policyOtherReaders},
	{"Roles", policyRoles},
	{"SameVerdicts", policySameVerdicts},
	{"AtClusterLevel", policyOfCluster},
	{"InvalidOnesAreRejected", policyInvalid},
	{"FaultyOnesDeny", policyFaulty},
	{"WithoutTheRight", policyUnreadable},
	{"WithoutTheKinds", policyMissing},
	{"KindsInstalledLater", policyInstalledLater},
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	p := &policed{installInto(t, controlplane.New(t, controlplane.DefaultConfig()))}
	p.Apply(t, "", controlplane.ClusterRoleBinding("readers", "sluice-reader", controlplane.Group("readers")),
		controlplane.ClusterRoleBinding("editors", "edit", controlplane.Group("editors")))
	for _, one := range policyTests {
		t.Run(one.name, func(t *testing.T) { one.run(t, p) })
	}
}

// policed is a cluster with policies.
type policed struct{ *cluster }

// reader is a user who may read every metric and write autoscalers.
func (p *policed) reader(t *testing.T, name string, groups ...string) controlplane.Clients {
	t.Helper()
	return p.As(t, name, append(groups, "readers", "editors", "system:authenticated")...)
}

// namespaceWith makes a namespace in which jobs (queue=mail, queue=video) and secret.keys were
// pushed.
func (p *policed) namespaceWith(t *testing.T, prefix string) string {
	t.Helper()
	ns := p.Namespace(t, prefix)
	p.Apply(t, ns, controlplane.ServiceAccount("pusher"))
	token := p.tokenFor(t, ns, "pusher", "sluice", nil)
	for _, path := range []string{"jobs?label=queue=mail&label=zone=a", "jobs?label=queue=video&label=zone=b", "secret.keys", "jobs_waiting"} {
		p.wantPush(t, token, "PUT", "/v1/namespaces/"+ns+"/external/"+path, "7", 200, "")
	}
	return ns
}

// apply applies rules as a policy of a namespace (or of the cluster), and waits until the server
// knows it.
func (p *policed) apply(t *testing.T, namespace, name, spec string) {
	t.Helper()
	kind := "ExternalMetricPolicy"
	if namespace == "" {
		kind = "ClusterExternalMetricPolicy"
	}
	p.Apply(t, namespace, fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec))
	p.awaitAccepted(t, namespace, name, "True")
}

func (p *policed) awaitAccepted(t *testing.T, namespace, name, want string) (message string) {
	t.Helper()
	within(t, func() error {
		var got *unstructured.Unstructured
		var err error
		if namespace == "" {
			got, err = p.Dynamic.Resource(clusterPolicies).Get(t.Context(), name, metav1.GetOptions{})
		} else {
			got, err = p.Dynamic.Resource(namespacePolicies).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
		}
		if err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedInt64(got.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		if observed != got.GetGeneration() || len(conditions) != 1 {
			return fmt.Errorf("%s has the status %v", name, got.Object["status"])
		}
		condition := conditions[0].(map[string]any)
		if message = fmt.Sprint(condition["message"]); condition["type"] != "Accepted" || condition["status"] != want {
			return fmt.Errorf("%s has the condition %v, want Accepted %s", name, condition, want)
		}
		return nil
	})
	return message
}

// query is the 403 of a reader's query; empty: values, or another error, which comes after
// policies.
func query(t *testing.T, reader controlplane.Clients, namespace, metric, selector string) string {
	t.Helper()
	_, err := reader.Get(t.Context(), external+"/namespaces/"+namespace+"/"+url.PathEscape(metric)+"?labelSelector="+url.QueryEscape(selector))
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
		return ""
	}
	if !apierrors.IsForbidden(err) {
		t.Fatalf("%s {%s}: %v", metric, selector, err)
	}
	return err.Error()
}

// wantQuery checks the answer: "" is values, otherwise a part of the message of a 403.
func wantQuery(t *testing.T, reader controlplane.Clients, namespace, metric, selector, says string) {
	t.Helper()
	got := query(t, reader, namespace, metric, selector)
	if (got == "") != (says == "") || !strings.Contains(got, says) {
		t.Errorf("%s {%s} in %s: %q, want %q", metric, selector, namespace, got, says)
	}
}

// asking is an autoscaler with one external metric.
func asking(name, metric, selector string) *autoscaling.HorizontalPodAutoscaler {
	text, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"maxReplicas": 3, "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"metrics": []any{map[string]any{"type": "External", "external": map[string]any{
				"metric": map[string]any{"name": metric}, "target": map[string]any{"type": "Value", "value": "1"}}}}},
	})
	var out autoscaling.HorizontalPodAutoscaler
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	if selector != "" {
		parsed, err := metav1.ParseToLabelSelector(selector)
		if err != nil {
			panic(err)
		}
		out.Spec.Metrics[0].External.Metric.Selector = parsed
	}
	return &out
}

// admit returns what admission says to an autoscaler; empty: it would be stored.
func admit(t *testing.T, author controlplane.Clients, namespace string, one *autoscaling.HorizontalPodAutoscaler) string {
	t.Helper()
	_, err := author.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(t.Context(), one, metav1.CreateOptions{DryRun: []string{"All"}})
	if err == nil {
		return ""
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	return err.Error()
}

// wantAdmit waits until admission answers so: it learns of policies by a watch.
func wantAdmit(t *testing.T, author controlplane.Clients, namespace string, one *autoscaling.HorizontalPodAutoscaler, says string) {
	t.Helper()
	within(t, func() error {
		if got := admit(t, author, namespace, one); (got == "") != (says == "") || !strings.Contains(got, says) {
			return fmt.Errorf("autoscaler of %v: %q, want %q", one.Spec.Metrics[0].External.Metric, got, says)
		}
		return nil
	})
}

// "per namespace"
func policyPerNamespace(t *testing.T, p *policed) {
	with, without := p.namespaceWith(t, "with"), p.namespaceWith(t, "without")
	p.apply(t, with, "guard", `{rules: [{metric: "secret[.].*", deny: true}]}`)
	alice := p.reader(t, "alice")
	wantQuery(t, alice, with, "secret.keys", "", `the external metric "secret.keys" is denied by rules[0] of externalmetricpolicy/guard in the namespace `+with)
	wantQuery(t, alice, with, "jobs", "", "")
	wantQuery(t, alice, without, "secret.keys", "", "")
}

// "or per user"
func policyPerUser(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "users")
	p.apply(t, ns, "guard", `{subjects: [{kind: User, name: bob}, {kind: Group, name: guests}, {kind: ServiceAccount, namespace: `+ns+`, name: pusher}],
  rules: [{metric: "secret.*", deny: true}]}`)
	wantQuery(t, p.reader(t, "alice"), ns, "secret.keys", "", "")
	wantQuery(t, p.reader(t, "bob"), ns, "secret.keys", "", "rules[0]")
	wantQuery(t, p.reader(t, "carol", "guests"), ns, "secret.keys", "", "rules[0]")
	wantQuery(t, p.reader(t, "system:serviceaccount:"+ns+":pusher"), ns, "secret.keys", "", "rules[0]")
	wantQuery(t, p.reader(t, "system:serviceaccount:"+ns+":other"), ns, "secret.keys", "", "")
	wantAdmit(t, p.reader(t, "bob"), ns, asking("web", "secret.keys", ""), "rules[0] of externalmetricpolicy/guard")
	wantAdmit(t, p.reader(t, "carol", "guests"), ns, asking("web", "secret.keys", ""), "rules[0]")
	wantAdmit(t, p.reader(t, "system:serviceaccount:"+ns+":pusher"), ns, asking("web", "secret.keys", ""), "rules[0]")
	wantAdmit(t, p.reader(t, "alice"), ns, asking("web", "secret.keys", ""), "")
	p.apply(t, ns, "guard", `{subjects: [{kind: Group, name: "system:serviceaccounts:kube-system"}], rules: [{metric: "secret.*", deny: true}]}`)
	wantAdmit(t, p.reader(t, "alice"), ns, asking("web", "secret.keys", ""), "rules[0]") // the controller could not read it
	wantQuery(t, p.reader(t, "alice"), ns, "secret.keys", "", "")
}

// "Additionally an admission controller could be used to check the policy when creating HPA
// object."
func policyAdmission(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "admission")
	p.apply(t, ns, "guard", `{rules: [{metric: "secret.*", deny: true}]}`)
	alice := p.reader(t, "alice")
	wantAdmit(t, alice, ns, asking("web", "secret.keys", ""), `the external metric "secret.keys" is denied by rules[0] of externalmetricpolicy/guard`)
	two := asking("web", "jobs", "")
	two.Spec.Metrics = append(two.Spec.Metrics, asking("web", "secret.keys:max:10s", "").Spec.Metrics...)
	wantAdmit(t, alice, ns, two, `"secret.keys:max:10s" is denied`)
	// by another version of the API
	_, err := p.TryKubectl(t, "create", "--dry-run=server", "--as=alice", "--as-group=readers", "--as-group=editors", "-f", p.file(t, `
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata:
  name: old
  namespace: `+ns+`
  annotations: {autoscaling.alpha.kubernetes.io/metrics: '[{"type":"External","external":{"metricName":"secret.keys","targetValue":"1"}}]'}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`))
	if err == nil || !strings.Contains(err.Error(), "is denied by rules[0]") {
		t.Errorf("an autoscaler of autoscaling/v1: %v", err)
	}
	p.Apply(t, ns, example(t, "policy-namespace.yaml", ns))
	p.awaitAccepted(t, ns, "guard", "True")
	for _, name := range []string{"sluice-policies", "sluice-cluster-policies", "sluice-authors"} {
		one, err := p.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if one.Status.TypeChecking != nil {
			for _, warning := range one.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", name, warning.FieldRef, warning.Warning)
			}
		}
	}
}

// Autoscalers that were stored before a policy stay writable until their external metrics change.
func policyStored(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "stored")
	p.Apply(t, ns, deployment("web"))
	autoscalers := p.reader(t, "alice").Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns)
	if _, err := autoscalers.Create(t.Context(), asking("web", "secret.keys", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.apply(t, ns, "guard", `{rules: [{metric: "secret.*", deny: true}]}`)
	wantAdmit(t, p.reader(t, "alice"), ns, asking("other", "secret.keys", ""), "rules[0]")
	change := func(patch string) error {
		_, err := p.TryKubectl(t, "patch", "hpa", "web", "-n", ns, "--as=alice", "--as-group=readers", "--as-group=editors", "--type=json", "-p", patch)
		return err
	}
	for _, patch := range []string{
		`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`,
		`[{"op":"replace","path":"/spec/maxReplicas","value":5}]`,
		`[{"op":"add","path":"/spec/metrics/-","value":{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}}]`,
		`[{"op":"replace","path":"/spec/metrics/0/external/target/value","value":"2"}]`,
	} {
		if err := change(patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if err := change(`[{"op":"replace","path":"/spec/metrics/0/external/metric/name","value":"secret.others"}]`); err == nil || !strings.Contains(err.Error(), "rules[0]") {
		t.Errorf("another denied metric: %v", err)
	}
	within(t, func() error { // the controller writes the status, with Sluice's 403 in it
		got, err := autoscalers.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range got.Status.Conditions {
			if strings.Contains(condition.Message, "rules[0] of externalmetricpolicy/guard") {
				return nil
			}
		}
		return fmt.Errorf("the status is %v", got.Status.Conditions)
	})
	must(t, autoscalers.Delete(t.Context(), "web", metav1.DeleteOptions{}))
}

// The author of an autoscaler must be allowed to read its metrics: the controller may read all.
func policyAuthor(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "authors")
	mallory := p.As(t, "mallory", "editors", "system:authenticated")
	wantAdmit(t, mallory, ns, asking("web", "secret.keys", ""), "mallory may not read the external metric secret.keys in the namespace "+ns)
	plain := asking("web", "jobs", "")
	plain.Spec.Metrics = nil
	if says := admit(t, mallory, ns, plain); says != "" {
		t.Errorf("without external metrics: %s", says)
	}
	p.Apply(t, ns, controlplane.Role("jobs", controlplane.User("mallory"),
		`{apiGroups: [external.metrics.k8s.io], resources: [jobs, 'a\|b'], verbs: [list]}`))
	wantAdmit(t, mallory, ns, asking("web", "jobs", ""), "")
	wantAdmit(t, mallory, ns, asking("web", `a\|b`, ""), "")
	wantAdmit(t, mallory, ns, asking("web", "jobs:max:1m", ""), "may not read") // each spelling is a name of its own
	wantAdmit(t, mallory, ns, asking("web", "secret.keys", ""), "may not read")
}

// A rule is no way around the checks of autoscalers: its author must be allowed to read what it computes from.
func policyRuleAuthor(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "ruleauthors")
	p.Apply(t, ns, controlplane.Role("free", controlplane.User("mallory"),
		"{apiGroups: [external.metrics.k8s.io], resources: [free, jobs, jobs_waiting, freed.keys], verbs: [list]}"))
	write := func(user, rule string) string {
		_, err := p.TryKubectl(t, "create", "--dry-run=server", "--as="+user, "--as-group=editors", "--as-group=system:authenticated", "-f", p.file(t,
			"apiVersion: sluice.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: innocent, namespace: "+ns+"}\nspec: "+rule))
		if err == nil {
			return ""
		}
		return err.Error()
	}
	want := func(user, rule, says string) {
		t.Helper()
		within(t, func() error {
			if got := write(user, rule); (got == "") != (says == "") || !strings.Contains(got, says) {
				return fmt.Errorf("rule %s by %s: %q, want %q", rule, user, got, says)
			}
			return nil
		})
	}
	wantAdmit(t, p.As(t, "mallory", "editors", "system:authenticated"), ns, asking("web", "free", ""), "")
	want("mallory", `{metric: free, let: {k: secret.keys}, value: k}`, "mallory may not read the external metric secret.keys")
	want("mallory", `{metric: free, let: {k: jobs, l: jobs_waiting}, value: k + l}`, "")
	want("mallory", `{rename: {from: "secret.(.*)", to: "freed.${1}"}}`, "mallory may not rename metrics")

	const alice = "alice"
	p.reader(t, alice)
	p.Kubectl(t, "create", "rolebinding", alice, "-n", ns, "--clusterrole=sluice-reader", "--user="+alice)
	want(alice, `{rename: {from: "secret.(.*)", to: "freed.${1}"}}`, "")
	p.apply(t, ns, "guard", `{subjects: [{kind: User, name: alice}], rules: [{metric: "secret.*", deny: true}, {metric: jobs, selector: {matchLabels: {queue: mail}}}]}`)
	want(alice, `{metric: free, let: {k: secret.keys}, value: k}`, `"secret.keys" is denied by rules[0] of externalmetricpolicy/guard`)
	want(alice, `{metric: free, let: {k: jobs}, value: k}`, "must be asked for with a selector within")
	want(alice, `{metric: free, let: {k: jobs}, selectors: {k: queue=mail}, value: k}`, "")
	want(alice, `{rename: {from: "secret.(.*)", to: "freed.${1}"}}`, "may not rename metrics")
}

// GET /v1 and the page of all series have the same verdicts as the metrics API.
func policyOtherReaders(t *testing.T, p *policed) {
	ns := p.namespaceWith(t, "others")
	p.apply(t, ns, "guard", `{rules: [{metric: "secret.*", deny: true}, {metric: "jobs", selector: {matchLabels: {queue: mail}}}]}`)
	token := p.tokenFor(t, ns, "pusher", "sluice", nil)
	p.wantPush(t, token, "GET", "/v1/namespaces/"+ns+"/external/secret.keys", "", 403, "rules[0] of externalmetricpolicy/guard")
	p.wantPush(t, token, "GET", "/v1/namespaces/"+ns+"/external/jobs?label=queue=video&label=zone=b", "", 403, "rules[1]")
	p.wantPush(t, token, "GET", "/v1/namespaces/"+ns+"/external/jobs?label=queue=mail&label=zone=a", "", 200, `"value":7`)
	page := p.wantPush(t, token, "GET", "/metrics/series?namespace="+ns, "", 200, "jobs_waiting")
	if strings.Contains(page, "secret") || strings.Contains(page, "video") || !strings.Contains(page, "mail") {
		t.Errorf("the page of all series has\n%s", page)
	}
}

// An administrator of a namespace may write its policies, an editor may not; both may write its rules, and
// neither the cluster's policies and rules. Sluice itself may write statuses alone.
func policyRoles(t *testing.T, p *policed) {
	ns := p.Namespace(t, "roles")
	for role, may := range map[string]struct{ policies, rules string }{"admin": {"yes", "yes"}, "edit": {"no", "yes"}, "view": {"no", "no"}} {
		p.Kubectl(t, "create", "rolebinding", role, "-n", ns, "--clusterrole="+role, "--user="+role)
		for question, want := range map[string]string{
			"create externalmetricpolicies.sluice.dev": may.policies, "delete externalmetricpolicies.sluice.dev": may.policies,
			"get externalmetricpolicies.sluice.dev": "yes", "create clusterexternalmetricpolicies.sluice.dev": "no",
			"create metricrules.sluice.dev": may.rules, "delete metricrules.sluice.dev": may.rules,
			"get metricrules.sluice.dev": "yes", "create clustermetricrules.sluice.dev": "no",
		} {
			within(t, func() error { // roles are aggregated by a controller
				got, _ := p.TryKubectl(t, append([]string{"auth", "can-i", "-n", ns, "--as=" + role}, strings.Fields(question)...)...)
				if strings.TrimSpace(got) != want {
					return fmt.Errorf("%s may %s: %s, want %s", role, question, got, want)
				}
				return nil
			})
		}
	}
}

// "at cluster level": a namespace cannot loosen it.
func policyOfCluster(t *testing.T, p *policed) {
	a, b := p.namespaceWith(t, "one"), p.namespaceWith(t, "two")
	p.apply(t, a, "open", `{rules: [{metric: ".*", selector: {}}]}`)
	p.apply(t, "", "guard", `{rules: [{metric: "secret.*", deny: true}]}`)
	defer p.Kubectl(t, "delete", "clusterexternalmetricpolicy", "guard")
	alice := p.reader(t, "alice")
	for _, ns := range []string{a, b} {
		wantQuery(t, alice, ns, "secret.keys", "", "rules[0] of clusterexternalmetricpolicy/guard")
		wantQuery(t, alice, ns, "jobs", "", "")
		wantAdmit(t, alice, ns, asking("web", "secret.keys", ""), "rules[0] of clusterexternalmetricpolicy/guard")
		wantAdmit(t, alice, ns, asking("web", "jobs", ""), "")
	}
	p.Apply(t, "", example(t, "policy-cluster.yaml", a))
	p.awaitAccepted(t, "", "contractors", "True")
	wantQuery(t, p.reader(t, "carol", "contractors"), a, "jobs", "", "rules[1] of clusterexternalmetricpolicy/contractors")
	if out := p.Kubectl(t, "get", "cemp", "guard"); !strings.Contains(out, "ACCEPTED") || !strings.Contains(out, "True") {
		t.Errorf("kubectl get shows\n%s", out)
	}
}
