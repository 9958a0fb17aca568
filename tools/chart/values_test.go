package chart

import (
	"regexp"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var setting = regexp.MustCompile(`(?m)^(?:# )?([a-z0-9-]+): `)

// TestConfigurationIsKnown: what is written for "sluice serve --config" has only settings that it knows.
func TestConfigurationIsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, found := range setting.FindAllStringSubmatch(read(t, "../../sluice.example.yaml"), -1) {
		known[found[1]] = true
	}
	for name, values := range valuesFiles(t) {
		for _, object := range strictly(t, mustRender(t, values)) {
			file, ok := object.(*core.ConfigMap)
			if !ok || file.Data["sluice.yaml"] == "" {
				continue
			}
			var settings map[string]any
			if err := yaml.UnmarshalStrict([]byte(file.Data["sluice.yaml"]), &settings); err != nil {
				t.Fatal(err)
			}
			if len(settings) < 10 {
				t.Errorf("%s: %d settings: the test does not see what it should", name, len(settings))
			}
			for setting := range settings {
				if !known[setting] {
					t.Errorf("%s: sluice.example.yaml has no setting %s", name, setting)
				}
			}
		}
	}
}

// TestValuesAreDescribed: README.md names every value.
func TestValuesAreDescribed(t *testing.T) {
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, folder+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	readme := read(t, folder+"/README.md")
	for _, path := range leaves("", values) {
		if !strings.Contains(readme, "`"+path+"`") {
			t.Errorf("README.md does not describe `%s`", path)
		}
	}
}

// leaves are the paths of a tree of values. What users fill themselves (config, labels, probes) is one leaf.
func leaves(path string, value any) (all []string) {
	branch, ok := value.(map[string]any)
	switch last := path[strings.LastIndex(path, ".")+1:]; {
	case !ok, len(branch) == 0, last == "config", last == "labels", last == "resources", strings.HasSuffix(last, "Probe"):
		return []string{path}
	}
	for key, child := range branch {
		all = append(all, leaves(strings.TrimPrefix(path+"."+key, "."), child)...)
	}
	return all
}
