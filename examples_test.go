package sluice_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestExamplesAreValid parses every YAML example and every YAML block of the documents.
// HorizontalPodAutoscalers have no unknown fields, a target, and metrics that can be asked for.
func TestExamplesAreValid(t *testing.T) {
	autoscalers, rules := 0, 0
	files := map[string]string{} // with the autoscaler of a name
	check := func(name, text string) {
		t.Helper()
		computed := map[string]bool{} // metrics of rules of the same file
		for _, yamlDocument := range yamlDocuments(t, name, text) {
			if yamlDocument["kind"] == rule.Kind || yamlDocument["kind"] == rule.ClusterKind {
				rules++
				if err := ruleFaults(t, name, yamlDocument, computed); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if yamlDocument["kind"] == "HorizontalPodAutoscaler" {
				autoscalers++
				if of := nameOf(yamlDocument); strings.HasPrefix(name, "examples/") {
					if files[of] != "" {
						t.Errorf("%s and %s install the autoscaler %s: the second one would change the first", files[of], name, of)
					}
					files[of] = name
				}
				for _, fault := range autoscalerFaults(yamlDocument, computed) {
					t.Errorf("%s: %s", name, fault)
				}
			}
		}
	}
	for _, file := range glob(t, "examples/*.yaml") {
		check(file, readFile(t, file))
	}
	for _, file := range append(glob(t, "docs/*.md"), "README.md") {
		for _, block := range yamlBlock.FindAllStringSubmatch(readFile(t, file), -1) {
			check(file, block[1])
		}
	}
	if autoscalers < 9 || rules < 8 {
		t.Errorf("found %d autoscalers and %d rules; the test does not see what it should", autoscalers, rules)
	}
}

// nameOf is the name of an object, with its namespace.
func nameOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	return fmt.Sprint(meta["namespace"], "/", meta["name"])
}

// targetFault: a sum is divided by the replicas (AverageValue). With Value, it would multiply them
// at every sync. One object's percentile, mean or extreme is no sum, and falls when pods are added:
// Value.
func targetFault(m autoscaling.MetricSourceType, name string, target autoscaling.MetricTarget) string {
	stat := metric.ParseExpression(name).Stat
	if m == autoscaling.ObjectMetricSourceType && stat != metric.NoStat && !stat.Additive() {
		if target.Type != autoscaling.ValueMetricType || target.Value == nil {
			return "target of " + name + " is not a Value, and " + stat.String() + " is no sum"
		}
		return ""
	}
	if target.Type != autoscaling.AverageValueMetricType || target.AverageValue == nil {
		return "target of " + name + " is not an AverageValue"
	}
	return ""
}

// ruleFaults are the faults of a rule, whose metric is added to computed.
func ruleFaults(t *testing.T, name string, one map[string]any, computed map[string]bool) error {
	t.Helper()
	text, err := yaml.Marshal(one)
	must(t, err)
	documents, err := rule.Parse(name, text)
	if err != nil {
		return err
	}
	computed[documents[0].Spec.Metric] = true
	return rule.NewSet(documents, func(string) (func(metric.Labels) bool, error) { return nil, nil }, nil).Faults()
}

func TestAutoscalerFaults(t *testing.T) {
	for _, text := range []string{
		`{spec: {maxReplicas: 1, metrics: [{type: Pods, pods: {metric: {name: "a:rate:10s"}, target: {type: AverageValue, averageValue: "1"}}}]}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metrics: [{type: Pods}]}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metric: []}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metrics: [{type: Object, object: {describedObject: {kind: Service, name: web}, metric: {name: "a:rate:10s"}, target: {type: Value, value: "1"}}}]}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metrics: [{type: Object, object: {describedObject: {kind: Service, name: web}, metric: {name: "a:p95"}, target: {type: AverageValue, averageValue: "1"}}}]}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metrics: [{type: Pods, pods: {metric: {name: "a?"}, target: {type: AverageValue, averageValue: "1"}}}]}}`,
	} {
		if faults := autoscalerFaults(yamlDocuments(t, "case", text)[0], nil); len(faults) == 0 {
			t.Errorf("%s: no fault found", text)
		}
	}
}

// TestTroubleshootingNamesEveryReason checks that docs/troubleshooting.md has a row for each reason
// to reject a sample, and names each reason that the push port's description lists.
func TestTroubleshootingNamesEveryReason(t *testing.T) {
	text := readFile(t, "docs/troubleshooting.md")
	for _, reason := range metric.Reasons() {
		if !strings.Contains(text, "\n| `"+reason.String()+"` |") {
			t.Errorf("no row for the reason %q", reason)
		}
	}
	var api struct {
		Components struct {
			Schemas struct{ Reason struct{ Enum []string } }
		}
	}
	must(t, json.Unmarshal([]byte(readFile(t, "receiver/push/openapi.json")), &api))
	reasons := api.Components.Schemas.Reason.Enum
	for _, reason := range reasons {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("the push port's reason %q is not named", reason)
		}
	}
	if len(reasons) < 20 {
		t.Errorf("found %d reasons of the push port; the test does not see what it should", len(reasons))
	}
}

var (
	exampleSetting = regexp.MustCompile(`(?m)^# ([a-z-]+): ?\S*$`)
	topicSetting   = regexp.MustCompile("`([a-z-]+\\*?)`")
)

// TestConfigurationCoversEverySetting checks that docs/configuration.md names every setting, or a
// pattern of it as statsd-*, and none that does not exist.
func TestConfigurationCoversEverySetting(t *testing.T) {
	_, topics, _ := strings.Cut(readFile(t, "docs/configuration.md"), "| topic | settings |")
	topics, _, _ = strings.Cut(topics, "\n\n")
	named := map[string]bool{} // whether the name or pattern is of a setting
	for _, name := range topicSetting.FindAllStringSubmatch(topics, -1) {
		named[name[1]] = false
	}
	settings := exampleSetting.FindAllStringSubmatch(readFile(t, "sluice.example.yaml"), -1)
	for _, setting := range settings {
		covered := false
		for name := range named {
			if prefix, isPattern := strings.CutSuffix(name, "*"); name == setting[1] || isPattern && strings.HasPrefix(setting[1], prefix) {
				covered, named[name] = true, true
			}
		}
		if !covered {
			t.Errorf("the setting %s has no topic", setting[1])
		}
	}
	for name, used := range named {
		if !used {
			t.Errorf("%s is no setting", name)
		}
	}
	if len(settings) < 40 {
		t.Errorf("found %d settings; the test does not see what it should", len(settings))
	}
}

// yamlDocuments are the YAML documents of a text.
func yamlDocuments(t *testing.T, name, text string) (all []map[string]any) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one map[string]any
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, one)
	}
}

// autoscalerFaults are the reasons why a manifest would not scale anything.
func autoscalerFaults(manifest map[string]any, computed map[string]bool) (faults []string) {
	text, err := json.Marshal(manifest)
	if err != nil {
		return []string{err.Error()}
	}
	var a autoscaling.HorizontalPodAutoscaler
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&a); err != nil {
		return []string{err.Error()}
	}
	if a.Spec.ScaleTargetRef.Kind == "" || a.Spec.ScaleTargetRef.Name == "" || a.Spec.MaxReplicas < 1 || len(a.Spec.Metrics) == 0 {
		faults = append(faults, "scaleTargetRef, maxReplicas or metrics is missing")
	}
	for _, m := range a.Spec.Metrics {
		var name string
		var target autoscaling.MetricTarget
		switch {
		case m.Type == autoscaling.PodsMetricSourceType && m.Pods != nil:
			name, target = m.Pods.Metric.Name, m.Pods.Target
		case m.Type == autoscaling.ObjectMetricSourceType && m.Object != nil:
			name, target = m.Object.Metric.Name, m.Object.Target
		case m.Type == autoscaling.ExternalMetricSourceType && m.External != nil:
			name, target = m.External.Metric.Name, m.External.Target
		default:
			faults = append(faults, "metric of type "+string(m.Type)+" has no source of that type")
			continue
		}
		if reason := metric.CheckName(metric.ParseExpression(name).Name); reason != metric.Applied {
			faults = append(faults, "metric name "+name+" is rejected: "+reason.String())
		}
		if computed[name] && target.Type == autoscaling.ValueMetricType && target.Value != nil {
			continue // a ratio falls when pods are added
		}
		if fault := targetFault(m.Type, name, target); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	return files
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}
