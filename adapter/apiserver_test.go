package adapter

import (
	"encoding/json"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestVersionIsSemantic(t *testing.T) {
	a := start(t, shop())
	_, body := a.get(t, "/version", "")
	var info version.Info
	must(t, json.Unmarshal(body, &info))
	parsed, err := utilversion.ParseSemantic(info.GitVersion)
	if err != nil || parsed.Major() != 1 || parsed.Minor() < 36 || parsed.PreRelease() != "" || parsed.BuildMetadata() != "sluice" {
		t.Errorf("%q: %v", info.GitVersion, err)
	}
	if strings.Contains(string(body), "Format") || info.Major != "1" || info.Minor == "" {
		t.Errorf("%s", body)
	}
}

// The server keeps only the definitions that answers refer to, and all of these.
func TestDefinitions(t *testing.T) {
	reference := func(string) spec.Ref { return spec.Ref{} }
	all, library := definitions(reference), libraryDefinitions(reference)
	if len(all) > 100 {
		t.Errorf("%d of %d definitions; must be few", len(all), len(library))
	}
	for _, answer := range []string{"io.k8s.apimachinery.pkg.version.Info", "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
		"io.k8s.metrics.pkg.apis.custom_metrics.v1beta2.MetricValueList", "io.k8s.metrics.pkg.apis.external_metrics.v1beta1.ExternalMetricValueList"} {
		if _, exists := all[answer]; !exists {
			t.Errorf("%s is missing", answer)
		}
	}
	for name, definition := range all {
		for _, other := range definition.Dependencies {
			_, inLibrary := library[other] // which lacks some
			if _, exists := all[other]; !exists && inLibrary {
				t.Errorf("%s refers to %s, which is missing", name, other)
			}
		}
	}
}
