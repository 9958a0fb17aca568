package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// checked is a ValidatingAdmissionPolicy as the API server compiles it.
type checked struct {
	policy     *admissionregistration.ValidatingAdmissionPolicy
	conditions admissioncel.ConditionEvaluator
	verdict    admissioncel.ConditionEvaluator
	messages   admissioncel.ConditionEvaluator
}

// admissionPolicies are the chart's, by name, compiled as a version of Kubernetes would compile new
// ones.
func admissionPolicies(t *testing.T, minor uint) map[string]checked {
	t.Helper()
	return admissionPoliciesOf(t, minor, mustRender(t, "", "keda.enabled=true", "admission.authors=true"))
}

func admissionPoliciesOf(t *testing.T, minor uint, chart string) map[string]checked {
	t.Helper()
	all := map[string]checked{}
	for _, object := range strictly(t, chart) {
		if policy, ok := object.(*admissionregistration.ValidatingAdmissionPolicy); ok {
			all[policy.Name] = compileAdmission(t, policy, minor)
		}
	}
	if len(all) != 9 {
		t.Errorf("%d ValidatingAdmissionPolicies; want 9", len(all))
	}
	return all
}

func compileAdmission(t *testing.T, policy *admissionregistration.ValidatingAdmissionPolicy, minor uint) checked {
	t.Helper()
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, minor)))
	must(t, err)
	options := admissioncel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	for i := range policy.Spec.Variables {
		one := &policy.Spec.Variables[i]
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: one.Name, Expression: one.Expression}, options, environment.NewExpressions)
		if result.Error != nil {
			t.Errorf("%s: 1.%d: variable %s: %v", policy.Name, minor, one.Name, result.Error)
		}
	}
	var conditions, validations, messages []admissioncel.ExpressionAccessor
	for _, one := range policy.Spec.MatchConditions {
		conditions = append(conditions, &validating.ValidationCondition{Expression: one.Expression})
	}
	for _, one := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: one.Expression})
		if one.MessageExpression != "" {
			messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: one.MessageExpression})
		}
	}
	withoutAuthorizer := options
	withoutAuthorizer.HasAuthorizer = false
	c := checked{policy,
		compiler.CompileCondition(conditions, options, environment.NewExpressions),
		compiler.CompileCondition(validations, options, environment.NewExpressions),
		compiler.CompileCondition(messages, withoutAuthorizer, environment.NewExpressions)}
	for _, part := range []admissioncel.ConditionEvaluator{c.conditions, c.verdict, c.messages} {
		for _, err := range part.CompilationErrors() {
			t.Errorf("%s: 1.%d: %v", policy.Name, minor, err)
		}
	}
	return c
}

// TestAdmissionCompiles: every version that has ValidatingAdmissionPolicies takes those of the
// chart.
func TestAdmissionCompiles(t *testing.T) {
	for minor := uint(30); minor <= 36; minor++ {
		admissionPolicies(t, minor)
	}
}

// admissionRequest is the writing of an autoscaler.
type admissionRequest struct {
	object, old, params map[string]any
	user                user.DefaultInfo
	may                 func(resource string) bool
}

// judge returns what the API server would answer; empty: admitted. cost is of the verdict and of
// the messages, which the API server computes for every request.
func (c checked) judge(t *testing.T, r admissionRequest) (says string, cost int64) {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	resource := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	switch c.policy.Spec.MatchConstraints.ResourceRules[0].APIGroups[0] {
	case "keda.sh":
		kind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
		resource = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
	case "sluice.dev":
		kind = schema.GroupVersionKind{Group: "sluice.dev", Version: "v1alpha1", Kind: "MetricRule"}
		resource = schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "metricrules"}
	}
	object := &unstructured.Unstructured{Object: r.object}
	var old runtime.Object
	operation := admission.Create
	if r.old != nil {
		old, operation = &unstructured.Unstructured{Object: r.old}, admission.Update
	}
	attributes := admission.NewAttributesRecord(object, old, kind, "shop", "web", resource, "", operation, nil, false, &r.user)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: object, VersionedOldObject: old}
	request := admissioncel.CreateAdmissionRequest(attributes, meta.GroupVersionResource(resource), meta.GroupVersionKind(kind))
	bindings := admissioncel.OptionalVariableBindings{Authorizer: authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if r.may != nil && r.may(a.GetResource()) && a.GetAPIGroup() == "external.metrics.k8s.io" && a.GetVerb() == "list" && a.GetNamespace() == "shop" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})}
	if r.params != nil {
		bindings.VersionedParams = &unstructured.Unstructured{Object: r.params}
	}
	matches, _, err := c.conditions.ForInput(t.Context(), versioned, request, bindings, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	must(t, err)
	for _, one := range matches {
		if one.Error != nil {
			return one.Error.Error(), 0
		}
		if one.EvalResult.Value() != true {
			return "", 0
		}
	}
	results, left, err := c.verdict.ForInput(t.Context(), versioned, request, bindings, nil, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return err.Error(), celconfig.RuntimeCELCostBudget
	}
	bindings.Authorizer = nil
	messages, remaining, err := c.messages.ForInput(t.Context(), versioned, request, bindings, nil, left)
	if err != nil {
		return err.Error(), celconfig.RuntimeCELCostBudget
	}
	at := 0
	for i, one := range results {
		message := c.policy.Spec.Validations[i].Message
		if c.policy.Spec.Validations[i].MessageExpression != "" {
			if messages[at].Error == nil {
				message = fmt.Sprint(messages[at].EvalResult.Value())
			}
			at++
		}
		switch {
		case says != "":
		case one.Error != nil:
			says = one.Error.Error()
		case one.EvalResult.Value() != true:
			says = message
		}
	}
	return says, celconfig.RuntimeCELCostBudget - remaining
}

// autoscaler asks for external metrics; selectors are those of Kubernetes.
func autoscaler(metrics ...map[string]any) map[string]any {
	var list []any
	for _, one := range metrics {
		list = append(list, map[string]any{"type": "External", "external": map[string]any{"metric": one, "target": map[string]any{"type": "Value", "value": "1"}}})
	}
	return map[string]any{"metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"metrics": list}}
}

func policyObject(rules ...map[string]any) map[string]any {
	var list []any
	for _, one := range rules {
		list = append(list, one)
	}
	return map[string]any{"metadata": map[string]any{"name": "guard", "namespace": "shop"}, "spec": map[string]any{"rules": list}}
}

// TestAdmissionFitsTheBudget: the largest policy and an autoscaler with twenty metrics stay within
// the API server's budget.
func TestAdmissionFitsTheBudget(t *testing.T) {
	c := admissionPolicies(t, 30)["sluice-policies"]
	var rules, metrics []map[string]any
	for i := range 64 {
		pattern := fmt.Sprintf("team%02d[.]%s", i, strings.Repeat("[a-y]", 22))
		rules = append(rules, map[string]any{"metric": pattern, "deny": true})
	}
	for i := range 20 {
		metrics = append(metrics, map[string]any{"name": fmt.Sprintf("metric%02d.%s", i, strings.Repeat("a", 50))})
	}
	for _, n := range []int{1, 20} {
		says, cost := c.judge(t, admissionRequest{object: autoscaler(metrics[:n]...), params: policyObject(rules...)})
		if says != "" {
			t.Errorf("%d metrics: %s", n, says)
		}
		t.Logf("%d metrics and 64 rules cost %d of %d units", n, cost, celconfig.RuntimeCELCostBudget)
	}
	few := policyObject(map[string]any{"metric": "secret[.].*", "deny": true}, map[string]any{"metric": "queue_.*", "selector": mail})
	_, cost := c.judge(t, admissionRequest{object: autoscaler(map[string]any{"name": "queue_depth", "selector": mail}), params: few})
	t.Logf("one metric and two rules cost %d units", cost)
	tooMany := make([]map[string]any, 65)
	for i := range tooMany {
		tooMany[i] = map[string]any{"name": "a"}
	}
	if says, _ := c.judge(t, admissionRequest{object: autoscaler(tooMany...), params: few}); !strings.Contains(says, "more than 64") {
		t.Errorf("65 metrics: %q", says)
	}
}

// The controller asks for external metrics in lower case, so a policy holds for every spelling of a name.
func TestAdmissionKnowsTheCase(t *testing.T) {
	policies := admissionPolicies(t, 30)
	guard := policyObject(map[string]any{"metric": "secret.*", "deny": true}, map[string]any{"metric": "queue_depth", "selector": mail})
	may := func(name string) bool { return name == "jobs" }
	for name, want := range map[string]struct{ policy, author string }{
		"secret.keys":        {"is denied by rules[0]", "may not read"},
		"SECRET.keys":        {`"secret.keys" is denied by rules[0]`, "may not read the external metric secret.keys"},
		"secret.KEYS:MAX:1M": {"is denied by rules[0]", "may not read"},
		"Queue_Depth":        {"must be asked for with a selector", "may not read"},
		"secret.\u212aeys":   {"must be written in lower case", "must be written in lower case"},
		"secret.\u2160":      {"must be written in lower case", "must be written in lower case"},
		"Jobs":               {"", ""},
		"jobs":               {"", ""},
	} {
		asks := autoscaler(map[string]any{"name": name})
		says, _ := policies["sluice-policies"].judge(t, admissionRequest{object: asks, params: guard})
		if (says == "") != (want.policy == "") || !strings.Contains(says, want.policy) {
			t.Errorf("%q by the policy: %q, want %q", name, says, want.policy)
		}
		says, _ = policies["sluice-authors"].judge(t, admissionRequest{object: asks, may: may, user: user.DefaultInfo{Name: "jane"}})
		if (says == "") != (want.author == "") || !strings.Contains(says, want.author) {
			t.Errorf("%q by its author: %q, want %q", name, says, want.author)
		}
	}
}

// mail selects one label set.
var mail = map[string]any{"matchLabels": map[string]any{"queue": "mail"}}

// TestAuthorsFitTheBudget: a check of rights is dear, so the number of metrics is bounded for
// authors who may not read all.
func TestAuthorsFitTheBudget(t *testing.T) {
	c := admissionPolicies(t, 30)["sluice-authors"]
	for _, one := range []struct {
		metrics int
		may     func(string) bool
		says    string
	}{
		{24, func(name string) bool { return name != "*" }, ""},
		{25, func(name string) bool { return name != "*" }, "more than 24"},
		{40, func(string) bool { return true }, ""},
		{24, func(name string) bool { return name != "*" && name != "m23" }, "jane may not read the external metric m22 or m23 in the namespace shop"},
		{1, func(string) bool { return false }, "jane may not read the external metric m0 in"},
	} {
		var metrics []map[string]any
		for i := range one.metrics {
			metrics = append(metrics, map[string]any{"name": fmt.Sprintf("m%d", i)})
		}
		says, cost := c.judge(t, admissionRequest{object: autoscaler(metrics...), may: one.may, user: user.DefaultInfo{Name: "jane"}})
		if (says == "") != (one.says == "") || !strings.Contains(says, one.says) {
			t.Errorf("%d metrics: %q; want %q", one.metrics, says, one.says)
		}
		t.Logf("%d metrics cost %d units", one.metrics, cost)
	}
}

// Where KEDA is another provider, its operator writes autoscalers on metrics that are forwarded to KEDA. It needs no right to read them. What
// Sluice, or a provider beside KEDA, would answer is checked as ever.
func TestKEDAsAutoscalersBesideAuthors(t *testing.T) {
	of := func(selector map[string]any, name string) map[string]any {
		return map[string]any{"name": name, "selector": selector}
	}
	kedas := map[string]any{"matchLabels": map[string]any{"scaledobject.keda.sh/name": "web"}}
	everywhere := mustRender(t, "../../charts/sluice/ci/route-values.yaml", "keda.enabled=true", "admission.authors=true")
	shops := mustRender(t, "../../charts/sluice/ci/route-values.yaml", "keda.enabled=true", "admission.authors=true", "externalMetrics.route[0].namespaces={shop*}")
	others := mustRender(t, "../../charts/sluice/ci/route-values.yaml", "keda.enabled=true", "admission.authors=true", "externalMetrics.route[0].namespaces={team-*,s.op}")
	for _, c := range []struct {
		chart  string
		metric map[string]any
		may    bool
	}{
		{everywhere, of(kedas, "s0-rabbitmq-orders"), true},
		{everywhere, of(kedas, "composite-metric"), true},
		{everywhere, of(nil, "s0-rabbitmq-orders"), false},
		{everywhere, of(mail, "s0-rabbitmq-orders"), false},
		{everywhere, of(kedas, "jobs"), false},
		{everywhere, of(kedas, "datadogmetric@bank:orders"), false},
		{shops, of(kedas, "s0-rabbitmq-orders"), true},
		{others, of(kedas, "s0-rabbitmq-orders"), false},
	} {
		says, _ := admissionPoliciesOf(t, 30, c.chart)["sluice-authors"].judge(t, admissionRequest{object: autoscaler(c.metric),
			may: func(string) bool { return false }, user: user.DefaultInfo{Name: "operator"}})
		if (says == "") != c.may || says != "" && !strings.Contains(says, "operator may not read the external metric") {
			t.Errorf("%v: %q", c.metric, says)
		}
	}
}

// Beside KEDA, which owns the group, autoscalers are checked as they are where Sluice does: the group may change hands, and an autoscaler that
// is stored is checked no more. KEDA's own metrics are left out, since KEDA answers them, and its operator must stay able to write
// autoscalers, whatever the policies say.
func TestAutoscalersBesideKEDAAreChecked(t *testing.T) {
	kedas := map[string]any{"matchLabels": map[string]any{"scaledobject.keda.sh/name": "web"}}
	all := admissionPoliciesOf(t, 30, mustRender(t, "../../charts/sluice/ci/keda-values.yaml", "admission.authors=true"))
	guard := policyObject(map[string]any{"metric": "jobs", "selector": mail}, map[string]any{"metric": ".*", "deny": true})
	for _, c := range []struct {
		metric map[string]any
		author bool   // may be written without a right
		says   string // of the policy; empty: admitted
	}{
		{map[string]any{"name": "s0-rabbitmq-orders", "selector": kedas}, true, ""},
		{map[string]any{"name": "composite-metric", "selector": kedas}, true, ""},
		{map[string]any{"name": "secret.keys"}, false, `"secret.keys" is denied by rules[1]`},
		{map[string]any{"name": "secret.keys", "selector": kedas}, false, `"secret.keys" is denied by rules[1]`},
		{map[string]any{"name": "s0-rabbitmq-orders"}, false, `"s0-rabbitmq-orders" is denied by rules[1]`},
		{map[string]any{"name": "jobs", "selector": mail}, false, ""},
		{map[string]any{"name": "jobs"}, false, "selector within that of rules[0]"},
	} {
		request := admissionRequest{object: autoscaler(c.metric), params: guard, may: func(string) bool { return false }, user: user.DefaultInfo{Name: "operator"}}
		for _, policy := range []string{"sluice-policies", "sluice-cluster-policies"} {
			if says, _ := all[policy].judge(t, request); (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
				t.Errorf("%s: %v: %q, want %q", policy, c.metric, says, c.says)
			}
		}
		if says, _ := all["sluice-authors"].judge(t, request); (says == "") != c.author || says != "" && !strings.Contains(says, "operator may not read the external metric") {
			t.Errorf("authors: %v: %q", c.metric, says)
		}
	}
}

// scaledObject has one trigger.
func scaledObject(metadata map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{
		"triggers": []any{map[string]any{"type": "external-push", "metadata": metadata}}}}
}

// TestAdmissionOfScaledObjects: triggers that Sluice would answer are checked as metrics of autoscalers are, as far
// as CEL reads their selectors, whatever their address. (Package keda compares these with its server.)
func TestAdmissionOfScaledObjects(t *testing.T) {
	all := admissionPolicies(t, 30)
	guard := policyObject(map[string]any{"metric": "secret.*", "deny": true}, map[string]any{"metric": "jobs", "selector": mail})
	janes := policyObject(map[string]any{"metric": "secret.*", "deny": true}, map[string]any{"metric": "jobs", "selector": mail})
	janes["spec"].(map[string]any)["subjects"] = []any{map[string]any{"kind": "User", "name": "jane"}}
	const ours = "dns:///sluice-keda.sluice.svc:9095"
	for _, one := range []struct {
		address, metric, selector, object string
		rejected, unread                  bool
	}{
		{ours, "secret.keys", "", "", true, true},
		{"sluice-keda.sluice:9095", "secret.keys", "", "", true, true},
		{"dns:///sluice-keda-headless.sluice.svc.cluster.local:9095", "secret.keys", "", "external", true, true},
		{"dns:///Sluice%2DKEDA.sluice.svc:9095", "secret.keys", "", "", true, true},
		{"dns:///alias.shop.svc:9095", "secret.keys", "", "", true, true},
		{ours, "secret.keys", "", "deployments.apps/web", false, false},
		{ours, "jobs", "queue=mail", "", false, true},
		{ours, "jobs", " queue == mail , zone ", "", false, true},
		{ours, "jobs", "queue=video", "", true, true},
		{ours, "jobs", "queue!=video", "", true, true},
		{ours, "jobs", "!queue", "", true, true},
		{ours, "jobs", "", "", true, true},
		{ours, "jobs", "queue in (mail, video)", "", false, true}, // left to the server
		{ours, "other", "", "", false, true},
	} {
		metadata := map[string]any{"scalerAddress": one.address, "metric": one.metric}
		if one.selector != "" {
			metadata["selector"] = one.selector
		}
		if one.object != "" {
			metadata["object"] = one.object
		}
		request := admissionRequest{object: scaledObject(metadata), params: guard}
		if says, _ := all["sluice-policies-keda"].judge(t, request); (says != "") != one.rejected || strings.Contains(says, "error") {
			t.Errorf("%v: %q; want rejected %v", metadata, says, one.rejected)
		}
		// The server applies no policy with subjects to an author, so a selector that admission does not read
		// selects all.
		request.params, request.user.Name = janes, "jane"
		if says, _ := all["sluice-policies-keda"].judge(t, request); (says != "") != (one.rejected || strings.Contains(one.selector, "(")) {
			t.Errorf("%v by a subject of the policy: %q", metadata, says)
		}
		request.params = nil
		if says, _ := all["sluice-authors-keda"].judge(t, request); (says != "") != one.unread || strings.Contains(says, "error") {
			t.Errorf("%v by an author without rights: %q; want rejected %v", metadata, says, one.unread)
		}
	}
}

// TestAdmissionOfRules: the author of a rule must be allowed to read what it computes from, since an autoscaler's
// controller reads the rule with rights of its own.
func TestAdmissionOfRules(t *testing.T) {
	all := admissionPolicies(t, 30)
	guard := policyObject(map[string]any{"metric": "secret.*", "deny": true}, map[string]any{"metric": "jobs", "selector": mail})
	guard["spec"].(map[string]any)["subjects"] = []any{map[string]any{"kind": "User", "name": "jane"}}
	computed := func(operand, selector string) map[string]any {
		spec := map[string]any{"metric": "free", "let": map[string]any{"k": operand, "other": "free"}, "value": "k"}
		if selector != "" {
			spec["selectors"] = map[string]any{"k": selector}
		}
		return spec
	}
	rename := map[string]any{"rename": map[string]any{"from": "secret_(.*)", "to": "free_${1}"}}
	for _, one := range []struct {
		spec             map[string]any
		rejected, unread string // parts of the messages; empty: admitted
	}{
		{computed("free", ""), "", ""},
		{computed("secret.keys", ""), `"secret.keys" is denied by rules[0]`, "secret.keys"}, // among others, in the order of a map
		{computed("secret.keys:max:1m", ""), "is denied by rules[0]", "may not read"},
		{computed("jobs", ""), "selector within that of rules[1]", "may not read"},
		{computed("jobs", "queue=mail"), "", "may not read"},
		{computed("jobs", "queue in (video)"), "selector within that of rules[1]", "may not read"},
		{rename, "jane may not rename metrics in the namespace shop, because externalmetricpolicy/guard concerns", "jane may not rename metrics"},
	} {
		object := map[string]any{"metadata": map[string]any{"name": "innocent", "namespace": "shop"}, "spec": one.spec}
		request := admissionRequest{object: object, params: guard, user: user.DefaultInfo{Name: "jane"}, may: func(name string) bool { return name == "free" }}
		check := func(policy, want string) {
			t.Helper()
			if says, _ := all[policy].judge(t, request); (says == "") != (want == "") || !strings.Contains(says, want) {
				t.Errorf("%s: %v: %q, want %q", policy, one.spec, says, want)
			}
		}
		check("sluice-policies-rules", one.rejected)
		check("sluice-authors-rules", one.unread)
		request.params = policyObject(guard["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any))
		check("sluice-policies-rules", "") // the server applies it to all readers
		request.params, request.user.Name, request.may = guard, "john", func(string) bool { return true }
		check("sluice-policies-rules", "")
		check("sluice-authors-rules", "")
		request.old, request.user.Name, request.may = object, "jane", nil
		check("sluice-policies-rules", "")
		check("sluice-authors-rules", "")
	}
}

// TestDefaultWindowOfTheChart: admission spells metrics with the server's default window.
func TestDefaultWindowOfTheChart(t *testing.T) {
	for windows, want := range map[string]string{"": "':1m'", "10s\\,1m\\,5m": "':1m'", "{10s,5m,90s}": "':5m'", "{10s,90s}": "':90s'", "{2h,60m}": "':2h'", "24h": "':1d'"} {
		var set []string
		if windows != "" {
			set = append(set, "config.windows="+windows)
		}
		if text := mustRender(t, "", set...); !strings.Contains(text, "== "+want+" ?") {
			t.Errorf("windows %s: no expression with %s", windows, want)
		}
	}
}
