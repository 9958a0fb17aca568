// Package sluice_test holds what is true of the whole repository and of no one package.
package sluice_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluice-metrics/sluice"

// mayImport lists what each package may import of ours. Imports run one way, from cmd down to
// metric; stages do not know each other: who needs something of another stage declares the methods,
// and cmd/sluice joins them. A new package is an error here until somebody decides where it stands.
var mayImport = map[string][]string{
	"metric":                         {},
	"config":                         {},
	"connlimit":                      {"ratelog"},
	"connlimit/crowd":                {}, // of tests
	"ratelog":                        {},
	"ratelog/logtest":                {}, // of tests
	"smallest":                       {}, // it knows no item
	"durable":                        {}, // it knows files only
	"footprint":                      {}, // it knows the process only
	"operations":                     {"connlimit", "config"},
	"receiver/statsd":                {"metric", "config"},
	"receiver/ledger":                {"metric"},
	"receiver/pending":               {"inspect/record", "metric", "config", "ratelog", "receiver/ledger"},
	"receiver":                       {"inspect/record", "receiver/ledger", "receiver/pending", "metric", "connlimit", "ratelog", "receiver/statsd", "config"},
	"receiver/buckets":               {"metric"},
	"receiver/exposition":            {"metric", "receiver/buckets"},
	"receiver/remotewrite":           {"metric", "receiver/buckets"},
	"receiver/otlp":                  {"metric", "receiver/buckets"},
	"receiver/credential":            {"metric", "connlimit", "config"},
	"receiver/group":                 {"metric", "ratelog", "receiver/buckets", "receiver/exposition", "config", "smallest"},
	"identity":                       {"metric", "config"},
	"limit":                          {"metric", "smallest", "ratelog", "config"},
	"workload":                       {"metric"},
	"reading":                        {"metric"},
	"aggregate":                      {"config", "metric", "smallest", "aggregate/blob", "aggregate/index", "aggregate/kind", "aggregate/lookup", "aggregate/memory", "aggregate/window"},
	"aggregate/blob":                 {}, // it knows bytes only
	"aggregate/index":                {"metric", "aggregate/lookup", "aggregate/memory"},
	"aggregate/kind":                 {"metric", "aggregate/blob", "aggregate/memory", "aggregate/window"},
	"aggregate/lookup":               {"metric", "aggregate/memory"},
	"aggregate/memory":               {}, // it knows bytes only
	"aggregate/window":               {"metric", "aggregate/blob", "aggregate/memory"},
	"store":                          {"config", "metric", "durable", "store/format", "store/folder", "store/wal", "store/database"},
	"store/format":                   {},
	"store/folder":                   {"durable", "store/format"},
	"store/wal":                      {"durable", "store/format"},
	"store/database":                 {"durable", "footprint", "store/format", "store/folder", "store/wal"},
	"deletion":                       {"metric", "ratelog"},
	"inspect/record":                 {"inspect", "metric"},
	"inspect":                        {"metric", "smallest"}, // documents; who serves or shows them imports it
	"explain":                        {"inspect", "metric", "suggest"},
	"suggest":                        {}, // it knows words only
	"rule":                           {"metric", "suggest"},
	"autoscaler":                     {"inspect", "metric"},
	"policy":                         {"metric"},
	"console":                        {"config", "connlimit", "explain", "inspect", "metric"},
	"export/otlp":                    {"config", "export", "metric", "ratelog"},
	"relay":                          {"config", "ratelog"},
	"export":                         {"metric", "receiver/exposition"},
	"replica":                        {"aggregate/blob", "config", "ratelog"}, // a table is an interface
	"mutualtls":                      {"config", "ratelog"},
	"mutualtls/testauthority":        {}, // of tests
	"keda":                           {"config", "connlimit", "keda/externalscaler", "metric", "mutualtls", "ratelog", "suggest"},
	"keda/externalscaler":            {},
	"wake":                           {"config", "explain", "inspect", "metric"},
	"replica/natsbus":                {"config", "mutualtls", "ratelog"},
	"adapter":                        {"policy", "adapter/valuelist", "config", "inspect", "metric", "connlimit", "durable"},
	"adapter/cluster":                {"config", "inspect", "metric"},
	"adapter/valuelist":              {"metric"},
	"loadtest":                       {"keda/externalscaler"}, // it speaks the wire only
	"cmd/sluice":                     {"inspect/record", "config", "metric", "deletion", "durable", "footprint", "operations", "receiver", "receiver/ledger", "receiver/pending", "receiver/statsd", "receiver/group", "receiver/push", "identity", "limit", "workload", "aggregate", "reading", "store", "replica", "replica/natsbus", "adapter", "adapter/cluster", "keda", "inspect", "explain", "suggest", "autoscaler", "wake", "export", "export/otlp", "relay", "console", "policy", "receiver/credential", "rule", "cmd/sluice/client", "cmd/sluice/command"},
	"cmd/sluice/client":              {"adapter", "adapter/cluster", "cmd/sluice/command", "config", "explain", "inspect", "keda", "metric", "receiver/statsd", "rule", "suggest"}, // grammars and documents, no stage
	"cmd/sluice/command":             {"config", "metric", "suggest"},
	"cmd/sluice/command/commandtest": {"cmd/sluice/command"}, // of tests
	"cmd/sluice-loadtest":            {"loadtest"},

	// HTTP push: the protocols stand on the server, and receiver/push joins them.
	"receiver/push/body":            {},
	"receiver/push/number":          {"metric"},
	"receiver/push/listener":        {"config", "connlimit", "ratelog", "receiver", "receiver/credential"},
	"receiver/push/httpserver":      {"inspect/record", "policy", "config", "metric", "connlimit", "ratelog", "receiver", "receiver/ledger", "receiver/pending", "receiver/credential", "receiver/push/body", "receiver/push/listener", "receiver/push/number"},
	"receiver/push/native":          {"inspect", "policy", "metric", "receiver/push/httpserver", "receiver/push/number", "suggest"},
	"receiver/push/statsdhttp":      {"metric", "receiver/statsd", "receiver/push/httpserver"},
	"receiver/push/pushgateway":     {"metric", "policy", "connlimit", "receiver/buckets", "receiver/exposition", "receiver/group", "receiver/push/httpserver"},
	"receiver/push/remotewritehttp": {"metric", "receiver/remotewrite", "receiver/push/httpserver"},
	"receiver/push/otlphttp":        {"metric", "receiver/otlp", "receiver/push/httpserver"},
	"receiver/push/serieshttp":      {"policy", "connlimit", "export", "metric", "receiver/exposition", "receiver/push/httpserver"},
	"receiver/push":                 {"inspect/record", "policy", "config", "export", "metric", "receiver", "receiver/ledger", "receiver/pending", "receiver/credential", "receiver/group", "receiver/statsd", "receiver/push/httpserver", "receiver/push/listener", "receiver/push/native", "receiver/push/statsdhttp", "receiver/push/pushgateway", "receiver/push/remotewritehttp", "receiver/push/otlphttp", "receiver/push/serieshttp"},
}

// onlyImporters lists who alone may import modules that would otherwise spread.
var onlyImporters = map[string][]string{
	"github.com/dgraph-io/badger/": {"store/database"},
	"k8s.io/":                      {"adapter", "adapter/cluster", "adapter/valuelist", "cmd/sluice", "cmd/sluice/client", "explain"}, // explain: quantities
	"sigs.k8s.io/":                 {"adapter", "adapter/cluster", "adapter/valuelist", "cmd/sluice"},
	"google.golang.org/grpc":       {"keda", "keda/externalscaler", "loadtest"},
	"github.com/google/cel-go":     {"rule"},
	"github.com/nats-io/":          {"replica/natsbus"},
	"go.opentelemetry.io/":         {"export/otlp", "receiver/otlp", "receiver/push/otlphttp"},
	"github.com/valyala/fasthttp":  {"receiver/push", "receiver/push/httpserver", "receiver/push/native", "receiver/push/pushgateway", "receiver/push/remotewritehttp", "receiver/push/otlphttp", "receiver/push/serieshttp", "loadtest"}, // loadtest: as the floor
	"github.com/spf13/":            {"cmd/sluice", "cmd/sluice/client", "cmd/sluice/command", "cmd/sluice/command/commandtest", "cmd/sluice-loadtest"},
}

// listed is what "go list -json" says of a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Error      *struct{ Err string }
}

// path is the package's folder in the repository.
func (p listed) path() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func (p listed) ours() bool { return strings.HasPrefix(p.ImportPath, module+"/") }

func listPackages(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Standard,Imports,Error"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var one listed
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

func TestImportsRunOneWay(t *testing.T) {
	seen := 0
	for _, p := range listPackages(t, "./...") {
		if !p.ours() {
			continue // this test's own folder
		}
		seen++
		allowed, known := mayImport[p.path()]
		if !known {
			t.Errorf("package %s is new: say in mayImport what it may import", p.path())
			continue
		}
		for _, fault := range badImports(p, allowed) {
			t.Error(fault)
		}
	}
	if seen < 5 {
		t.Errorf("go list found %d packages of ours: the test does not see what it should", seen)
	}
}

func badImports(p listed, allowed []string) (faults []string) {
	for _, imported := range p.Imports {
		if own, ok := strings.CutPrefix(imported, module+"/"); ok && !slices.Contains(allowed, own) {
			faults = append(faults, p.path()+" imports "+own+": stages do not import each other, want an interface in "+p.path()+" that cmd/sluice fills")
		}
		for prefix, importers := range onlyImporters {
			if (strings.HasPrefix(imported, prefix) || imported+"/" == prefix) && !slices.Contains(importers, p.path()) {
				faults = append(faults, p.path()+" imports "+imported+": only "+strings.Join(importers, " and ")+" may")
			}
		}
	}
	return faults
}

func TestBadImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		from, imports string
		bad           bool
	}{
		{"store", module + "/metric", false},
		{"store", module + "/aggregate", true},
		{"receiver", module + "/receiver/push", true},
		{"loadtest", module + "/metric", true},
		{"store/database", "github.com/dgraph-io/badger/v4", false},
		{"store", "github.com/dgraph-io/badger/v4", true},
		{"aggregate", "github.com/dgraph-io/badger/v4", true},
		{"aggregate", "k8s.io/apimachinery/pkg/labels", true},
		{"adapter", "k8s.io/apimachinery/pkg/labels", false},
	} {
		p := listed{ImportPath: module + "/" + c.from, Imports: []string{c.imports}}
		if got := len(badImports(p, mayImport[c.from])) > 0; got != c.bad {
			t.Errorf("%s imports %s: refused %v, want %v", c.from, c.imports, got, c.bad)
		}
	}
}

func TestMetricNeedsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range listPackages(t, "-deps", "./metric") {
		if !p.Standard && p.path() != "metric" {
			t.Errorf("metric depends on %s: want the standard library only", p.ImportPath)
		}
	}
}

func TestNoModuleOfKubernetesItself(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "k8s.io/kubernetes ") {
		t.Error("go.mod needs k8s.io/kubernetes: it is no library, its parts have modules of their own")
	}
}

func TestFoldersHaveNamesOfTheDomain(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		switch entry.Name() {
		case "util", "utils", "common", "pkg", "helpers", "misc":
			t.Errorf("folder %s: want a noun of the domain", path)
		case ".git", "testdata", "data", "bin":
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
