package keda

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The chart's admission policies see the triggers that ask Sluice for external metrics, and parseTrigger is what
// answers them. These tests hold one table against both.

// admission evaluates the chart's expressions for one ScaledObject, as the API server does.
type admission struct{ expressions map[string]cel.Program }

// rendered finds the expressions of a policy in what the chart renders. It is YAML that this
// module has no reader for; the chart's own tests read it whole.
func rendered(t testing.TB) admission {
	t.Helper()
	text, err := os.ReadFile("../../charts/sluice/ci/golden/keda.yaml")
	must(t, err)
	_, policy, found := strings.Cut(string(text), "  name: \"sluice-policies-keda\"\n")
	if !found {
		t.Fatal("the chart renders no policy of KEDA's triggers")
	}
	base, err := environment.MustBaseEnvSet(version.MajorMinor(1, 30)).Env(environment.NewExpressions)
	must(t, err)
	a := admission{map[string]cel.Program{}}
	for _, name := range []string{"triggers", "metrics", "names"} {
		one := regexp.MustCompile(`(?s)- name: ` + name + `\n +expression: >-\n(.*?)\n +- name:`).FindStringSubmatch(policy)
		if one == nil {
			one = regexp.MustCompile(`(?s)- name: ` + name + `\n +expression: >-\n(.*?)\n +# `).FindStringSubmatch(policy)
		}
		if one == nil {
			t.Fatalf("no expression %s", name)
		}
		env, err := base.Extend(cel.Variable("object", cel.DynType), cel.Variable("variables", cel.DynType))
		must(t, err)
		ast, issues := env.Compile(one[1])
		if issues.Err() != nil {
			t.Fatal(name, issues.Err())
		}
		if a.expressions[name], err = env.Program(ast); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// sees returns the names of the metrics that are checked. A fault rejects the ScaledObject.
func (a admission) sees(t testing.TB, kind string, metadata map[string]string) (names []string, rejected bool) {
	t.Helper()
	trigger := map[string]any{"type": kind, "metadata": metadata}
	in := map[string]any{"object": map[string]any{"spec": map[string]any{"triggers": []any{trigger}}}}
	if matches, _, err := a.expressions["triggers"].Eval(in); err != nil || matches.Value() != true {
		return nil, err != nil
	}
	metrics, _, err := a.expressions["metrics"].Eval(in)
	if err != nil {
		return nil, true
	}
	in["variables"] = map[string]any{"metrics": metrics}
	list, _, err := a.expressions["names"].Eval(in)
	if err != nil {
		return nil, true
	}
	native, err := list.ConvertToNative(reflect.TypeFor[[]string]())
	must(t, err)
	return native.([]string), false
}

// answered returns the external metric that the server would answer a trigger with; KEDA drops keys that end in
// FromEnv and have no value there, and keeps others.
func answered(metadata map[string]string) (metric string) {
	given := maps.Clone(metadata)
	maps.DeleteFunc(given, func(key, _ string) bool { return strings.HasSuffix(key, "FromEnv") })
	t, err := trigger.Parse("shop", given)
	if err != nil || t.Question.Object != trigger.External {
		return ""
	}
	return strings.ReplaceAll(t.Question.Metric, `\|`, "/")
}

// spellings are of triggers that lead to Sluice: of the address of its Service, and of others that do.
var spellings = []string{
	"dns:///sluice-keda.sluice.svc:9095", "sluice-keda.sluice:9095", "dns:///sluice-keda-headless.sluice.svc.cluster.local:9095",
	"dns:///Sluice-KEDA.sluice.svc:9095", "dns:///sluice-keda.SLUICE.svc:9095", "dns:///sluice%2Dkeda.sluice.svc:9095",
	"dns:///sluice%2dkeda.sluice.svc:9095", "dns:sluice-keda.sluice.svc:9095", "dns:///sluice-keda%2Esluice.svc:9095",
	"dns://10.96.0.10/sluice-keda.sluice.svc:9095", "passthrough:///sluice-keda.sluice.svc:9095", "sluice-keda.sluice.svc.:9095",
	"dns:///10-244-0-7.sluice-keda-headless.sluice.svc:9095", "dns:///sluice-replica-0.sluice.svc:9095",
	"10.96.7.7:9095", "ipv4:10.96.7.7:9095", "dns:///alias.shop.svc:9095", "",
}

// Whatever the address, a trigger that the server would answer with an external metric is checked.
func TestAdmissionSeesWhatIsAnswered(t *testing.T) {
	a := rendered(t)
	for _, address := range spellings {
		for _, object := range []string{"", "external", "-"} {
			metadata := map[string]string{"scalerAddress": address, "metric": `secret\|keys`, "target": "1", "object": object}
			if object == "-" {
				delete(metadata, "object")
			}
			for _, kind := range []string{"external", "external-push"} {
				names, rejected := a.sees(t, kind, metadata)
				if answered(metadata) != "secret/keys" || rejected || !slices.Equal(names, []string{"secret/keys"}) {
					t.Errorf("%s, object %q: admission checks %q (rejected: %v), the server answers with %q", address, object, names, rejected, answered(metadata))
				}
			}
		}
	}
	for _, key := range slices.Concat(trigger.OwnKeys, trigger.KEDAKeys) {
		metadata := map[string]string{"metric": "m", "target": "1"}
		if _, has := metadata[key]; !has && key != "object" {
			metadata[key] = "1"
		}
		if names, rejected := a.sees(t, "external", metadata); rejected || len(names) != 1 {
			t.Errorf("with the key %s: admission checks %q (rejected: %v)", key, names, rejected)
		}
	}
	for name, c := range map[string]struct {
		metadata map[string]string
		seen     bool
	}{
		"a key that KEDA drops":       {map[string]string{"metric": "m", "target": "1", "otherFromEnv": "NONE"}, true},
		"an object":                   {map[string]string{"metric": "m", "target": "1", "object": "deployments.apps/web"}, false},
		"pods":                        {map[string]string{"metric": "m", "target": "1", "object": "pods"}, false},
		"another scaler's key":        {map[string]string{"metric": "m", "target": "1", "queue": "mail"}, false},
		"another scaler, no metric":   {map[string]string{"scalerAddress": "dns:///scaler.example:9095"}, false},
		"no target: no answer either": {map[string]string{"metric": "m"}, true},
	} {
		names, rejected := a.sees(t, "external", c.metadata)
		if rejected || (len(names) == 1) != c.seen {
			t.Errorf("%s: admission checks %q (rejected: %v), want %v", name, names, rejected, c.seen)
		}
	}
}

// FuzzAdmission: of no trigger the server answers with an external metric that admission does not check.
func FuzzAdmission(f *testing.F) {
	a := rendered(f)
	for _, address := range spellings {
		f.Add(address, "secret.keys", "external", "queue=mail", "0", "", "")
	}
	f.Add("x:1", "m:p95:10s", "", "", "error", "podSelector", "a=b")
	f.Add("x:1", `a\|b`, " external", "", "", "Object", "external")
	f.Add("x:1", "m", "External", "", "", "metricFromEnv", "KEY")
	f.Fuzz(func(t *testing.T, address, metric, object, selector, absent, key, value string) {
		metadata := map[string]string{"scalerAddress": address, "metric": metric, "object": object, "selector": selector, "absent": absent, "target": "1"}
		if key != "" {
			metadata[key] = value
		}
		for _, omitted := range []string{"", "object", "selector", "scalerAddress"} {
			one := maps.Clone(metadata)
			delete(one, omitted)
			want := answered(one)
			names, rejected := a.sees(t, "external-push", one)
			if want != "" && !rejected && !slices.Contains(names, want) {
				t.Errorf("%q: the server answers with %q, admission checks %q", one, want, names)
			}
		}
	})
}
