package sbom

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

const source = "../.."

func TestListNamesLinkedModules(t *testing.T) {
	binary, err := filepath.Abs(filepath.Join(t.TempDir(), "sluice"))
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/sluice")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	text, err := List(Product{
		Version: "0.0.1", Commit: "c0ffee", Created: time.Unix(1_700_000_000, 0).UTC(), OS: runtime.GOOS, Architecture: runtime.GOARCH, Path: binary,
	})
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	versions, addresses := map[string]string{}, map[string]string{}
	for _, part := range document.Packages {
		versions[part.PackageName] = part.PackageVersion
		addresses[part.PackageName] = part.PackageExternalReferences[0].Locator
	}
	required, err := os.ReadFile(source + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"github.com/dgraph-io/badger/v4", "k8s.io/client-go", "github.com/valyala/fasthttp"} {
		want := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` (\S+)`).FindSubmatch(required)
		if want == nil {
			t.Fatalf("go.mod does not require %s", module)
		}
		if versions[module] != string(want[1]) {
			t.Errorf("%s %q: want go.mod's %s", module, versions[module], want[1])
		}
		if address := "pkg:golang/" + module + "@" + string(want[1]); addresses[module] != address {
			t.Errorf("%s: package URL %q, want %q", module, addresses[module], address)
		}
	}
	if versions["sluice"] != "0.0.1" || !strings.HasPrefix(versions["stdlib"], "1.") {
		t.Errorf("sluice %q, stdlib %q: want the product's version and Go's", versions["sluice"], versions["stdlib"])
	}
	if len(document.Relationships) != len(document.Packages) {
		t.Errorf("%d relationships of %d packages: want one for each", len(document.Relationships), len(document.Packages))
	}
}
