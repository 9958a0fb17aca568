package keda

import (
	"bytes"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

// yamlBlock is a block of YAML in a document.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestExamples checks the metadata of each trigger in the examples and documents, as a request of
// KEDA is checked.
func TestExamples(t *testing.T) {
	triggers := 0
	check := func(name string, text []byte) {
		t.Helper()
		for _, metadata := range triggersOf(text) {
			triggers++
			if _, err := trigger.Parse("shop", metadata); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, file := range files(t, "../../examples/keda-*.yaml") {
		check(file, content(t, file))
	}
	for _, file := range append(files(t, "../../docs/*.md"), "../../README.md", "../../charts/sluice/README.md") {
		for _, block := range yamlBlock.FindAllSubmatch(content(t, file), -1) {
			check(file, block[1])
		}
	}
	if triggers < 6 {
		t.Errorf("found %d triggers; the test does not see what it should", triggers)
	}
}

// triggersOf returns the metadata of Sluice's triggers: of ScaledObjects, or of a list "triggers".
func triggersOf(text []byte) (all []map[string]string) {
	type triggers []struct {
		Type     string
		Metadata map[string]string
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one struct {
			Kind     string
			Spec     struct{ Triggers triggers }
			Triggers triggers
		}
		if err := decoder.Decode(&one); err != nil {
			return all // the end, or a document of another form
		}
		for _, trigger := range append(one.Spec.Triggers, one.Triggers...) {
			if trigger.Type == "external" || trigger.Type == "external-push" {
				all = append(all, trigger.Metadata)
			}
		}
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(all), err)
	}
	return all
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return text
}
