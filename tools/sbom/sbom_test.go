package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

// TestBillListsWhatIsLinked holds the list against go.mod, for modules that are certainly linked in.
func TestBillListsWhatIsLinked(t *testing.T) {
	text, err := bill(release{version: testVersion, commit: "c0ffee", created: time.Unix(1_700_000_000, 0).UTC()}, built(t))
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
	required, err := os.ReadFile(*source + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"github.com/dgraph-io/badger/v4", "k8s.io/client-go", "github.com/valyala/fasthttp"} {
		want := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` (\S+)`).FindSubmatch(required)
		if want == nil {
			t.Fatalf("go.mod does not require %s: the test does not see what it should", module)
		}
		if versions[module] != string(want[1]) {
			t.Errorf("%s %q: want go.mod's %s", module, versions[module], want[1])
		}
		if address := "pkg:golang/" + module + "@" + string(want[1]); addresses[module] != address {
			t.Errorf("%s: package URL %q, want %q", module, addresses[module], address)
		}
	}
	if versions["sluice"] != testVersion || !strings.HasPrefix(versions["stdlib"], "1.") {
		t.Errorf("sluice %q, stdlib %q: want the product's version and Go's", versions["sluice"], versions["stdlib"])
	}
	if len(document.Relationships) != len(document.Packages) {
		t.Errorf("%d relations for %d packages: want each to hang on something", len(document.Relationships), len(document.Packages))
	}
}
