package chart

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var setting = regexp.MustCompile(`(?m)^# (.+)\n(?:# )?([a-z0-9-]+): (.*)$`)

// settings are those of sluice.example.yaml, each with the last line of its comment and its
// default.
func settings(t *testing.T) (all []struct{ name, about, value string }) {
	t.Helper()
	for _, found := range setting.FindAllStringSubmatch(read(t, "../../sluice.example.yaml"), -1) {
		all = append(all, struct{ name, about, value string }{found[2], found[1], found[3]})
	}
	return all
}

// TestSchemaKnowsTheSettings: the schema has every setting of the example file, and the words of
// settings that take one of a few. (cmd/sluice generates both.)
func TestSchemaKnowsTheSettings(t *testing.T) {
	var schema struct {
		Properties struct {
			Config struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(read(t, folder+"/values.schema.json")), &schema))
	taken := schema.Properties.Config.Properties
	if len(taken) < 40 {
		t.Errorf("%d settings: the test does not see what it should", len(taken))
	}
	for _, one := range settings(t) {
		rule, ok := taken[one.name]
		if !ok {
			t.Errorf("the schema refuses the setting %s", one.name)
		}
		delete(taken, one.name)
		if len(rule.Enum) > 0 && !slices.Contains(rule.Enum, one.value) {
			t.Errorf("%s is %s by default, which the schema refuses", one.name, one.value)
		}
		for _, word := range rule.Enum {
			if !regexp.MustCompile(`\b` + word + `\b`).MatchString(one.about) {
				t.Errorf("%s takes %q by the schema, of which sluice.example.yaml does not speak: %s", one.name, word, one.about)
			}
		}
	}
	for name := range taken {
		t.Errorf("the schema takes config.%s, which is no setting", name)
	}
}

// TestConfigurationIsKnown: what is written for "sluice serve --config" has only settings that it
// knows.
func TestConfigurationIsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, one := range settings(t) {
		known[one.name] = true
	}
	for name, values := range valuesFiles(t) {
		for _, object := range strictly(t, mustRender(t, values)) {
			file, ok := object.(*core.ConfigMap)
			if !ok || file.Data["sluice.yaml"] == "" {
				continue
			}
			var settings map[string]any
			must(t, yaml.UnmarshalStrict([]byte(file.Data["sluice.yaml"]), &settings))
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

// TestNamespacesAreAlwaysWatched: a list of the user's own need not name them.
func TestNamespacesAreAlwaysWatched(t *testing.T) {
	for list, want := range map[string][]any{
		"daemonsets.apps":            {"daemonsets.apps", "namespaces"},
		"namespaces,daemonsets.apps": {"namespaces", "daemonsets.apps"},
	} {
		objects := strictly(t, mustRender(t, "", "objectKinds={"+list+"}"))
		if got := fileOf(t, objects)["object-kinds"]; !reflect.DeepEqual(got, want) {
			t.Errorf("objectKinds %s: object-kinds %v, want %v", list, got, want)
		}
		watched := slices.ContainsFunc(objects, func(o runtime.Object) bool {
			role, ok := o.(*rbac.ClusterRole)
			return ok && role.Name == release && slices.ContainsFunc(role.Rules, func(r rbac.PolicyRule) bool {
				return slices.Contains(r.APIGroups, "") && slices.Contains(r.Resources, "namespaces") && slices.Contains(r.Verbs, "watch")
			})
		})
		if !watched {
			t.Errorf("objectKinds %s: no right to watch namespaces", list)
		}
	}
}

// TestValuesAreDescribed: README.md names every value.
func TestValuesAreDescribed(t *testing.T) {
	var values map[string]any
	must(t, yaml.UnmarshalStrict([]byte(read(t, folder+"/values.yaml")), &values))
	readme := read(t, folder+"/README.md")
	for _, path := range leaves("", values) {
		if !strings.Contains(readme, "`"+path+"`") {
			t.Errorf("README.md does not describe `%s`", path)
		}
	}
}

// leaves are the paths of a tree of values. What users fill themselves (config, labels, probes) and
// what Kubernetes describes is one leaf.
func leaves(path string, value any) (all []string) {
	branch, ok := value.(map[string]any)
	switch last := path[strings.LastIndex(path, ".")+1:]; {
	case !ok, len(branch) == 0, last == "config", last == "labels", last == "resources", last == "podSecurityContext", strings.HasSuffix(last, "Probe"):
		return []string{path}
	}
	for key, child := range branch {
		all = append(all, leaves(strings.TrimPrefix(path+"."+key, "."), child)...)
	}
	return all
}
