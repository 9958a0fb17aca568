package adapter

import (
	"encoding/json"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

func TestVersionIsSemantic(t *testing.T) {
	a := start(t, shop())
	_, body := a.get(t, "/version", "")
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		t.Fatal(err)
	}
	parsed, err := utilversion.ParseSemantic(info.GitVersion)
	if err != nil || parsed.Major() != 1 || parsed.Minor() < 36 || parsed.PreRelease() != "" || parsed.BuildMetadata() != "sluice" {
		t.Errorf("%q: %v", info.GitVersion, err)
	}
	if strings.Contains(string(body), "Format") || info.Major != "1" || info.Minor == "" {
		t.Errorf("%s", body)
	}
}

// kubectl may warn about a version skew; it must be able to read the version.
func TestKubectlVersion(t *testing.T) {
	out, complaints, err := start(t, shop()).kubectl(t, "version")
	if err != nil || !strings.Contains(out, "Server Version: v1.") {
		t.Errorf("%v %s\n%s", err, complaints, out)
	}
}
