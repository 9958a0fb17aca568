package sluice_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/sluice-metrics/sluice/metric"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestExamplesAreValid parses every YAML example and every YAML block of the documents.
// HorizontalPodAutoscalers have no unknown fields, a target, and metrics that can be asked for.
func TestExamplesAreValid(t *testing.T) {
	autoscalers := 0
	check := func(name, text string) {
		t.Helper()
		for _, one := range yamlDocuments(t, name, text) {
			if one["kind"] == "HorizontalPodAutoscaler" {
				autoscalers++
				for _, fault := range autoscalerFaults(one) {
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
	if autoscalers < 9 {
		t.Errorf("found %d autoscalers; the test does not see what it should", autoscalers)
	}
}

func TestAutoscalerFaults(t *testing.T) {
	for _, text := range []string{
		`{spec: {maxReplicas: 1, metrics: [{type: Pods, pods: {metric: {name: "a:rate:10s"}, target: {type: AverageValue, averageValue: "1"}}}]}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metrics: [{type: Pods}]}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metric: []}}`,
		`{spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 1, metrics: [{type: Pods, pods: {metric: {name: "a?"}, target: {type: AverageValue, averageValue: "1"}}}]}}`,
	} {
		if faults := autoscalerFaults(yamlDocuments(t, "case", text)[0]); len(faults) == 0 {
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
	if err := json.Unmarshal([]byte(readFile(t, "receiver/push/openapi.json")), &api); err != nil {
		t.Fatal(err)
	}
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
func autoscalerFaults(manifest map[string]any) (faults []string) {
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
		if target.Type != autoscaling.AverageValueMetricType || target.AverageValue == nil {
			faults = append(faults, "target of "+name+" is not an AverageValue")
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
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
