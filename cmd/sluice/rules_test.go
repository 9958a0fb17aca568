package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/aggregate/rule/ruletest"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

// A rule's metric is read by every way that a pushed one is: the metrics APIs, their discovery, HTTP
// and KEDA.
func TestARuleIsReadLikeAPushedMetric(t *testing.T) {
	t.Parallel()
	file := ruletest.File(t, ruletest.Busy)
	p := started(t, t.TempDir(), "--rules-file", file)
	for path, value := range map[string]string{
		"pods/web-1/busy_workers": "3", "pods/web-1/total_workers": "4", "external/busy_workers": "1", "external/total_workers": "2", "pods/web-2/busy_workers": "9",
	} {
		accepted(t, p, "PUT", "/v1/namespaces/shop/"+path, value)
	}
	accepted(t, p, "POST", "/v1/namespaces/shop/external/hits_total", "60")
	get := func(want string, args ...string) {
		t.Helper()
		code, out, errs := called(t, append([]string{"get", "--kubeconfig", p.kubeconfig, "-n", "shop"}, args...)...)
		if !strings.Contains(out+errs, want) || (code == command.ExitOK) == strings.HasPrefix(want, "no series") {
			t.Errorf("%v: %d %s %s; want %s", args, code, out, errs, want)
		}
	}
	get("0.75", "pods/*", "busy_ratio")
	get("0.75", "pods/web-1", "busy_ratio")
	get("no series", "pods/web-2", "busy_ratio")
	get("0.5", "external", "busy_ratio")
	get("hits_per_second", "external", "hits_per_second:total")
	for path, want := range map[string]string{"pods/web-1/busy_ratio": `"value":0.75`, "external/busy_ratio": `"value":0.5`, "external/hits_per_second:total": `"value":60`} {
		if code, text := spoken(t, p, "GET", "/v1/namespaces/shop/"+path, ""); code != 200 || !strings.Contains(strings.ReplaceAll(text, " ", ""), want) {
			t.Errorf("%s: %d %s, want %s", path, code, text, want)
		}
	}
	accepted(t, p, "PUT", "/v1/namespaces/shop/pods/web-3/busy_workers", "1")
	accepted(t, p, "PUT", "/v1/namespaces/shop/pods/web-3/total_workers", "2")
	if code, text := spoken(t, p, "GET", "/v1/namespaces/shop/pods/*/busy_ratio?sum=true", ""); code != 400 {
		t.Errorf("ratios were added up: %d %s", code, text)
	}
	var listed []string
	for _, discovered := range p.reader().Listed(100, nil) {
		listed = append(listed, discovered.Resource+"/"+discovered.Name)
	}
	if all := strings.Join(listed, " "); !strings.Contains(all, "pods/busy_ratio") || !strings.Contains(all, "/hits_per_second") {
		t.Errorf("listed: %s", all)
	}
	get("0.5", "external", "busy_ratio")
	code, out, errs := called(t, "list", "rules", "-A", "--kubeconfig", p.kubeconfig)
	if code != command.ExitOK {
		t.Errorf("list rules: %d %s", code, errs)
	}
	for _, want := range []string{"busy_workers, total_workers:last", "0.5", "external", "Accepted", "(.*)_total", "${1}_per_second"} {
		if !strings.Contains(out, want) {
			t.Errorf("list rules lacks %q:\n%s", want, out)
		}
	}
	for name, c := range map[string]struct {
		code int
		says string
	}{
		"busy_ratio": {command.ExitOK, "busy_ratio is computed by metricrule/busy in shop: total > 0.0 ? busy / total : 0.0\n" +
			"  from busy_workers, total_workers:last\n  read as busy_ratio, without a stat and a window\n"},
		"hits_per_second": {command.ExitOK, "hits_per_second is a name that clustermetricrule/per-second gives to hits_total\n"},
		"jobs_per_second": {command.ExitFailed, "gives to jobs_total\n  no value, because these have no series in shop: jobs_total\n"},
	} {
		if code, out, errs := called(t, "explain", name, "-n", "shop", "--kubeconfig", p.kubeconfig); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("explain %s: %d %s%s", name, code, out, errs)
		}
	}
	accepted(t, p, "PUT", "/v1/namespaces/shop/external/busy_ratio", "1")
	p.rules.LookSoon()
	for range 3000 { // at most a minute
		if strings.Contains(fmt.Sprint(p.rules.Listed()), inspect.RulePushed) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if code, out, _ := called(t, "list", "rules", "-n", "shop", "--kubeconfig", p.kubeconfig); code != command.ExitFailed || !strings.Contains(out, "Pushed") {
		t.Errorf("list rules of a pushed metric: %d %s", code, out)
	}
	if code, out, errs := called(t, "explain", "busy_ratio", "-n", "shop", "--kubeconfig", p.kubeconfig); code != command.ExitOK ||
		!strings.Contains(out, "A metric of that name is pushed, and answers where it exists:\nbusy_ratio is a gauge") {
		t.Errorf("explain a pushed metric of a rule's name: %d %s%s", code, out, errs)
	}
	code, out, errs = called(t, "rule", "test", file, "--kubeconfig", p.kubeconfig, "--of", "pods/*")
	if code != command.ExitOK || !strings.Contains(out, "pod/web-1") || !strings.Contains(out, "0.75") {
		t.Errorf("rule test: %d %s %s", code, out, errs)
	}
}

// KEDA's trigger wakes for a sample of an operand, and never adds up ratios.
func TestATriggerOfARule(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--rules-file", ruletest.File(t, ruletest.Busy), "--keda-address", "127.0.0.1:0", "--keda-insecure")
	push := func(path, value string) {
		t.Helper()
		accepted(t, p, "PUT", "/v1/namespaces/shop/"+path, value)
	}
	source := p.triggers()
	asked, err := source.Ask(trigger.Question{Namespace: "shop", Metric: "busy_ratio", Object: trigger.External})
	must(t, err)
	changed := changesOf(t, source, asked)
	changed()
	if changed() {
		t.Error("changed without a sample")
	}
	push("external/busy_workers", "3")
	push("external/total_workers", "4")
	if !changed() {
		t.Error("not changed by an operand")
	}
	if v, err := asked.Value(); err != nil || v.Float64() != 0.75 {
		t.Errorf("%v %v", v, err)
	}
	for _, pod := range []string{"web-1", "web-2"} {
		push("pods/"+pod+"/busy_workers", "3")
		push("pods/"+pod+"/total_workers", "4")
	}
	asked, err = source.Ask(trigger.Question{Namespace: "shop", Metric: "busy_ratio", Object: trigger.Pods})
	must(t, err)
	push("pods/web-2/busy_workers", "1")
	if v, err := asked.Value(); err != nil || v.Float64() != 0.5 {
		t.Errorf("%v %v: must be the ratio of sums", v, err)
	}
}

// manifests are rules among other objects, as kubectl prints a part of them.
const manifests = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
---
apiVersion: sluice.dev/v1alpha1
kind: ExternalMetricPolicy
metadata: {name: all}
spec: {rules: []}
---
apiVersion: v1
kind: List
items:
- apiVersion: sluice.dev/v1alpha1
  kind: MetricRule
  metadata:
    name: busy
    namespace: shop
    uid: 5a7b
    creationTimestamp: "2026-01-01T00:00:00Z"
    generation: 1
    managedFields: [{manager: kubectl}]
  spec:
    metric: busy_ratio
    let: {busy: busy_workers, total: "total_workers:last"}
    value: busy / total
  status: {observedGeneration: 1}
- apiVersion: sluice.dev/v1alpha1
  kind: ClusterMetricRule
  metadata: {name: per-second}
  spec:
    rename: {from: "(.*)_total", to: "${1}_per_second"}
- apiVersion: sluice.dev/v1alpha1
  kind: MetricRule
  metadata: {name: work, namespace: shop}
  spec:
    metric: work_left
    let: {done: jobs_per_second}
    value: done - 5.0
- apiVersion: v1
  kind: Service
  metadata: {name: web}
`

// A file that can't be read, or is invalid, is a fault of its setting.
func TestRulesFileNamesItsFault(t *testing.T) {
	for want, file := range map[string]string{
		"--rules-file cannot be read: ": filepath.Join(t.TempDir(), "missing.yaml"),
		"--rules-file is invalid: ":     ruletest.File(t, "kind: MetricRule\n"),
	} {
		code, _, errs := called(t, onFreePorts(t.TempDir(), "--rules-file", file)...)
		if code != command.ExitUsage || !strings.Contains(errs, want) || !strings.Contains(errs, file) {
			t.Errorf("%s: exit code %d, %s", file, code, errs)
		}
	}
}

func TestRuleTest(t *testing.T) {
	file := ruletest.File(t, ruletest.Busy)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{command.ExitOK, "metricrule/busy in shop", []string{file}},
		{command.ExitOK, "0.75", []string{file, "--value", "busy_workers=3", "--value", "total_workers:last=4"}},
		{command.ExitFailed, "operand total has no value", []string{file, "--value", "busy_workers=3"}},
		{command.ExitFailed, "undeclared reference to 'totl'", []string{ruletest.File(t, strings.ReplaceAll(ruletest.Busy, "busy / total", "busy / totl"))}},
		{command.ExitFailed, "4: spec.metrc is unknown", []string{ruletest.File(t, "apiVersion: sluice.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: a}\nspec: {metrc: x}\n")}},
		{command.ExitFailed, "undeclared reference to 'totl'", []string{ruletest.File(t, "kind: MetricRule\n---\n"+strings.ReplaceAll(ruletest.Busy, "busy / total", "busy / totl"))}},
		{command.ExitUsage, "must be METRIC=NUMBER", []string{file, "--value", "busy"}},
		{command.ExitUsage, "must be METRIC=NUMBER", []string{file, "--value", "busy=NaN"}},
		{command.ExitUsage, `--value sets "busy_workers" twice`, []string{file, "--value", "busy_workers=3", "--value", "busy_workers=4"}},
		{command.ExitOK, "hits_per_second:count  hits_total:count  60", []string{file, "--value", "busy_workers=3", "--value", "total_workers=4", "--value", "hits_total:count=60"}},
		{command.ExitOK, "valid; renames none of the metrics of --value", []string{file, "--value", "busy_workers=3", "--value", "total_workers=4"}},
		{command.ExitOK, "0.75", []string{ruletest.File(t, manifests), "--value", "busy_workers=3", "--value", "total_workers=4", "--value", "jobs_total=7"}},
		{command.ExitOK, "work_left        external    2", []string{ruletest.File(t, manifests), "--value", "busy_workers=3", "--value", "total_workers=4", "--value", "jobs_total=7"}},
		{command.ExitOK, "rules.yaml:39: skipped a Service of v1", []string{ruletest.File(t, manifests)}},
		{command.ExitFailed, "has no rules; must have a MetricRule", []string{ruletest.File(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n")}},
		{command.ExitFailed, `kind is "MetricsRule"`, []string{ruletest.File(t, "apiVersion: sluice.dev/v1alpha1\nkind: MetricsRule\nmetadata: {name: web}\n")}},
		{command.ExitFailed, `apiVersion is "sluce.dev/v1alpha1"`, []string{ruletest.File(t, "apiVersion: sluce.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: web}\n")}},
		{command.ExitFailed, "kind is \"List\"; its items are a text; must be a list", []string{ruletest.File(t, "apiVersion: v1\nkind: List\nitems: x\n")}},
		{command.ExitUsage, "--of and --value are both set", []string{file, "--value", "busy=1", "--of", "external"}},
		{command.ExitUsage, "must be one file", nil},
		{command.ExitUsage, `--of: WHAT is "pod"`, []string{file, "--of", "pod"}},
		{command.ExitOK, "rule-ratio.yaml:16: skipped a HorizontalPodAutoscaler of autoscaling/v2", []string{"../../examples/rule-ratio.yaml"}},
		{command.ExitOK, "metricrule/busy in shop", []string{"../../examples/rule-ratio.yaml"}},
		{command.ExitOK, "clustermetricrule/per-second", []string{"../../examples/rule-rename.yaml"}},
		{command.ExitFailed, "hpa-pods.yaml has no rules", []string{"../../examples/hpa-pods.yaml"}},
		{command.ExitFailed, "has no rules; must have a MetricRule", []string{ruletest.File(t, "# later\n")}},
	} {
		code, out, errs := called(t, append([]string{"rule", "test"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: %d %s %s; want %d with %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

// "-" is standard input, so that rules of a cluster can be tested.
func TestRuleTestReadsStandardInput(t *testing.T) {
	text, err := os.ReadFile("../../examples/rule-ratio.yaml")
	must(t, err)
	for input, want := range map[string]struct {
		code int
		says string
	}{
		string(text): {command.ExitOK, "metricrule/busy in shop"},
		"":           {command.ExitFailed, "standard input has no rules"},
		"kind: Metricrule\napiVersion: sluice.dev/v1alpha1\n": {command.ExitFailed, "standard input"},
	} {
		code, out, errs := commandtest.Run(newSluice(), input, "rule", "test", "-")
		if code != want.code || !strings.Contains(out+errs, want.says) {
			t.Errorf("%q: %d %s %s; want %d with %q", input, code, out, errs, want.code, want.says)
		}
	}
}
