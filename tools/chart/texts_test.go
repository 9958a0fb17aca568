package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// oddNames are names that Kubernetes takes, and that YAML reads as something else than text.
var oddNames = []string{"1e3", "1234567", "y", "on"}

// everyValue is what values.yaml has, with all that is off or empty switched on.
func everyValue(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, text := range []string{read(t, folder+"/values.yaml"), read(t, folder+"/ci/everything-on-values.yaml"), `
replicas: 2
replicaTLS: {source: cert-manager, certManager: {issuerRef: {name: a, kind: b, group: c}}}
tls: {source: cert-manager, certManager: {issuerRef: {name: a, kind: b, group: c}}}
keda: {enabled: true, tls: {source: cert-manager, certManager: {issuerRef: {name: a, kind: b, group: c}}}, clientNames: [a], authentication: {secret: ""}}
admission: {authors: true}
global: {imagePullSecrets: [a]}
nats: {credsSecret: a, caSecret: a, url: "tls://a:4222"}
httpRoute: {enabled: true, parentRefs: [{name: a, namespace: a, sectionName: a}], hostnames: [a.example]}
extraObjects: []
`} {
		var more map[string]any
		must(t, yaml.Unmarshal([]byte(text), &more))
		join(all, more)
	}
	return all
}

func join(to, more map[string]any) {
	for key, value := range more {
		inner, ok := value.(map[string]any)
		if there, is := to[key].(map[string]any); ok && is {
			join(there, inner)
			continue
		}
		to[key] = value
	}
}

// texts calls visit for each text of a tree, by its path as Helm's schema faults write it.
func texts(path string, tree any, visit func(path, text string) string) any {
	switch one := tree.(type) {
	case map[string]any:
		for key, value := range one {
			one[key] = texts(path+"/"+key, value, visit)
		}
	case []any:
		for i, value := range one {
			one[i] = texts(fmt.Sprint(path, "/", i), value, visit)
		}
	case string:
		return visit(path, one)
	}
	return tree
}

var refusedPath = regexp.MustCompile(`at '([^']*)'`)

// TestTextsStayTexts: whatever name is given as a value, as the release's or as the namespace's, stays text: the API
// server would refuse a number or a truth. Each value takes each word that the schema takes.
func TestTextsStayTexts(t *testing.T) {
	for i, word := range oddNames {
		refused := map[string]bool{"/tls/source": true, "/replicaTLS/source": true, "/keda/tls/source": true, "/dnsPolicy": true,
			"/wake/kinds/0": true, "/wake/kinds/1": true, "/wake/kinds/2": true} // templates refuse others of these
		for range 4 {
			values, changed := everyValue(t), 0
			if i%2 == 0 { // it is refused for several replicas
				refused["/persistence/existingClaim"], refused["/keda/authentication/secret"] = true, true
			} else {
				join(values, map[string]any{"replicas": 1, "tls": map[string]any{"source": "secret", "secret": map[string]any{"caBundle": "-----BEGIN CERTIFICATE-----"}},
					"keda": map[string]any{"tls": map[string]any{"source": "secret"}}})
			}
			texts("", values, func(path, text string) string {
				list, at := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
				again := at > "0" && at <= "9" && refused[list] // all items would be equal
				if refused[path] || again || strings.HasPrefix(path, "/extra") || strings.HasPrefix(path, "/config/") {
					return text
				}
				changed++
				return word
			})
			file := filepath.Join(t.TempDir(), "values.json")
			body, err := json.Marshal(values)
			if err == nil {
				err = os.WriteFile(file, body, 0o600)
			}
			must(t, err)
			text, complaints, err := helm(t, os.DevNull, "template", "r"+word, folder, "--namespace", word, "--values", file)
			if err == nil {
				t.Logf("%s: %d values take it, %v don't", word, changed, slices.Sorted(maps.Keys(refused)))
				if changed < 60 {
					t.Errorf("%s: %d values take it: the test does not see what it should", word, changed)
				}
				wantTexts(t, word, text)
				break
			}
			before := len(refused)
			for _, found := range refusedPath.FindAllStringSubmatch(complaints, -1) {
				refused[found[1]] = true
			}
			if len(refused) == before {
				t.Fatalf("%s: %v\n%s", word, err, complaints)
			}
		}
	}
}

// wantTexts reads manifests by their types, and those without one for numbers.
func wantTexts(t *testing.T, word, manifests string) {
	t.Helper()
	for _, manifest := range strings.Split(manifests, "\n---\n") {
		if !strings.Contains(manifest, "\nkind: ") {
			continue
		}
		var tree any
		must(t, yaml.Unmarshal([]byte(manifest), &tree))
		if body, _ := json.Marshal(tree); regexp.MustCompile(`[:\[,](1000|1234567|1.234567e\+06)[,}\]]`).Match(body) {
			t.Errorf("%s is a number:\n%s", word, manifest)
		}
	}
	strictly(t, manifests)
}

// TestNamesThatYAMLReadsAsWords: a full name may be one that YAML reads as true.
func TestNamesThatYAMLReadsAsWords(t *testing.T) {
	strictly(t, mustRender(t, "", "fullnameOverride=on", "replicas=2", "agent.enabled=true", "keda.enabled=true"))
}

// TestLongNames: the longest name of a release makes no name that is too long for a Service, and names that fit stay.
func TestLongNames(t *testing.T) {
	for _, c := range []struct{ release, keda string }{
		{"r" + strings.Repeat("x", 47) + "sl", "r" + strings.Repeat("x", 47) + "s-keda"},
		{"sluice" + strings.Repeat("x", 44), "sluice" + strings.Repeat("x", 43) + "-keda"},
		{"sluice" + strings.Repeat("x", 43), "sluice" + strings.Repeat("x", 43) + "-keda"},
	} {
		text, complaints, err := helm(t, os.DevNull, "template", c.release, folder, "--set", "keda.enabled=true,agent.enabled=true,replicas=5,fullnameOverride="+c.release)
		if err != nil {
			t.Fatal(err, complaints)
		}
		names := map[string]bool{}
		for _, object := range strictly(t, text) {
			if service, ok := object.(*core.Service); ok {
				names[service.Name] = true
				if len(service.Name) > 63 {
					t.Errorf("the Service %s has %d letters", service.Name, len(service.Name))
				}
			}
		}
		if !names[c.keda] || !names[c.keda+"-headless"] {
			t.Errorf("%s: no Services %s and %[2]s-headless: %v", c.release, c.keda, slices.Sorted(maps.Keys(names)))
		}
	}
}

// TestGlobalsOfTheParentChart: values that a parent chart has for its other charts are none of ours.
func TestGlobalsOfTheParentChart(t *testing.T) {
	parent := t.TempDir()
	must(t, os.CopyFS(filepath.Join(parent, "charts", "sluice"), os.DirFS(folder)))
	for name, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: parent\nversion: 1.0.0\n",
		"values.yaml": "global: {storageClass: fast, imageRegistry: mirror.example}\n",
	} {
		must(t, os.WriteFile(filepath.Join(parent, name), []byte(text), 0o600))
	}
	text, complaints, err := helm(t, os.DevNull, "template", release, parent)
	if err != nil || !strings.Contains(text, `image: "mirror.example/sluice:`) {
		t.Errorf("%v %s", err, complaints)
	}
}
