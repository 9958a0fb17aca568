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
	"metric":                           {},
	"internal/config":                  {},
	"internal/connlimit":               {"internal/collect", "internal/fair", "internal/ratelog"},
	"internal/connlimit/crowd":         {}, // of tests
	"internal/ratelog":                 {},
	"internal/ratelog/logtest":         {},                    // of tests
	"internal/smallest":                {},                    // it knows no item
	"internal/durable":                 {},                    // it knows files only
	"internal/collect":                 {},                    // it knows values only
	"internal/fair":                    {"internal/pressure"}, // it knows numbers only
	"internal/pressure":                {},
	"internal/footprint":               {}, // it knows the process only
	"internal/operations":              {"internal/connlimit", "internal/config"},
	"receiver/statsd":                  {"metric", "internal/config"},
	"receiver/ledger":                  {"metric", "internal/collect"},
	"receiver/pending":                 {"adapter/inspect/record", "metric", "internal/config", "internal/ratelog", "receiver/ledger", "internal/collect", "internal/fair"},
	"receiver":                         {"adapter/inspect/record", "receiver/ledger", "receiver/pending", "metric", "internal/connlimit", "internal/ratelog", "receiver/statsd", "internal/config"},
	"receiver/buckets":                 {"metric"},
	"receiver/exposition":              {"metric", "receiver/buckets"},
	"receiver/remotewrite":             {"metric", "receiver/buckets", "internal/fair"},
	"receiver/otlp":                    {"metric", "receiver/buckets"},
	"receiver/credential":              {"metric", "internal/connlimit", "internal/config"},
	"receiver/group":                   {"metric", "internal/ratelog", "receiver/buckets", "receiver/exposition", "internal/config", "internal/smallest", "internal/collect", "internal/fair"},
	"receiver/identity":                {"metric", "internal/config"},
	"receiver/scrape":                  {"adapter/inspect", "adapter/inspect/record", "internal/ratelog", "metric", "receiver", "receiver/exposition", "receiver/ledger"},
	"aggregate/limit":                  {"metric", "internal/smallest", "internal/ratelog", "internal/config"},
	"aggregate/answer":                 {"aggregate", "aggregate/rollup", "aggregate/rule", "metric"},
	"aggregate/rollup":                 {"metric", "aggregate/blob", "internal/fair"},
	"aggregate":                        {"internal/config", "metric", "internal/smallest", "aggregate/blob", "aggregate/index", "aggregate/kind", "aggregate/lookup", "aggregate/memory", "aggregate/window", "internal/collect", "internal/fair"},
	"aggregate/blob":                   {}, // it knows bytes only
	"aggregate/index":                  {"metric", "aggregate/lookup", "aggregate/memory"},
	"aggregate/kind":                   {"metric", "aggregate/blob", "aggregate/memory", "aggregate/window", "internal/fair"},
	"aggregate/lookup":                 {"metric", "aggregate/memory"},
	"aggregate/memory":                 {}, // it knows bytes only
	"aggregate/usage":                  {"metric"},
	"receiver/cgroup":                  {"metric"},
	"receiver/kubelet":                 {"internal/config", "metric"},
	"aggregate/window":                 {"metric", "aggregate/blob", "aggregate/memory"},
	"store":                            {"internal/config", "metric", "internal/durable", "store/format", "store/folder", "store/wal", "store/database", "internal/collect"},
	"store/format":                     {},
	"store/folder":                     {"internal/durable", "store/format"},
	"store/wal":                        {"internal/durable", "store/format"},
	"store/database":                   {"internal/durable", "internal/footprint", "store/format", "store/folder", "store/wal"},
	"replica/claim":                    {"aggregate/blob"}, // it knows names and bytes only
	"replica/deletion":                 {"metric", "internal/fair", "internal/ratelog", "aggregate/blob"},
	"adapter/inspect/record":           {"adapter/inspect", "internal/fair", "metric"},
	"adapter/inspect":                  {"metric", "internal/smallest"}, // documents; who serves or shows them imports it
	"adapter/autoscaler/explain":       {"adapter/inspect", "metric", "internal/suggest"},
	"internal/suggest":                 {}, // it knows words only
	"internal/pattern":                 {}, // it knows expressions only
	"aggregate/rule":                   {"metric", "internal/pattern", "internal/suggest"},
	"aggregate/rule/ruletest":          {}, // of tests
	"adapter/autoscaler":               {"adapter/autoscaler/explain", "adapter/inspect", "metric", "internal/collect", "internal/fair"},
	"adapter/policy":                   {"internal/fair", "internal/pattern", "metric"},
	"adapter/console":                  {"internal/config", "internal/connlimit", "internal/fair", "adapter/autoscaler/explain", "adapter/inspect", "metric"},
	"adapter/export/otlp":              {"internal/config", "adapter/export", "metric", "internal/ratelog", "internal/collect"},
	"receiver/relay":                   {"internal/config", "internal/ratelog", "internal/collect"},
	"adapter/export":                   {"metric", "receiver/exposition"},
	"replica":                          {"aggregate/blob", "internal/config", "internal/ratelog", "internal/collect"}, // a table is an interface
	"internal/mutualtls":               {"internal/config", "internal/ratelog"},
	"internal/mutualtls/testauthority": {}, // of tests
	"adapter/keda":                     {"adapter/keda/trigger", "internal/config", "internal/connlimit", "internal/fair", "adapter/keda/externalscaler", "metric", "internal/mutualtls", "internal/ratelog", "internal/suggest", "internal/collect"},
	"adapter/keda/trigger":             {"internal/suggest", "metric"},
	"adapter/autoscaler/document":      {"adapter/inspect", "metric"},
	"adapter/builtin":                  {"metric"},
	"adapter/labelselector":            {"metric"},
	"adapter/keda/externalscaler":      {},
	"adapter/autoscaler/wake":          {"internal/config", "internal/fair", "adapter/autoscaler/explain", "adapter/inspect", "metric", "internal/collect"},
	"replica/agentwire":                {"aggregate/usage", "metric"}, // what messages say
	"replica/agent":                    {"aggregate/usage", "replica/agentwire", "internal/config", "internal/operations", "internal/ratelog", "metric", "internal/collect", "aggregate/blob", "internal/fair"},
	"replica/agents":                   {"aggregate/usage", "replica/agentwire", "internal/config", "internal/connlimit", "internal/fair", "internal/mutualtls", "internal/ratelog", "metric", "internal/collect"},
	"replica/natsbus":                  {"internal/config", "internal/mutualtls", "internal/ratelog", "internal/collect"},
	"adapter/route":                    {"internal/fair", "metric"},
	"adapter":                          {"adapter/autoscaler/explain", "adapter/builtin", "adapter/labelselector", "adapter/policy", "adapter/route", "adapter/valuelist", "aggregate/answer", "aggregate/usage", "internal/config", "adapter/inspect", "metric", "internal/connlimit", "internal/durable", "internal/fair", "internal/mutualtls"},
	"adapter/customkind":               {"adapter/cluster", "adapter/inspect", "adapter/labelselector", "adapter/policy", "aggregate/rule", "internal/fair", "metric"},
	"adapter/cluster":                  {"adapter/autoscaler/document", "aggregate/usage", "internal/config", "internal/ratelog", "adapter/inspect", "metric", "internal/collect", "internal/fair"},
	"adapter/valuelist":                {"metric"},
	"loadtest":                         {"adapter/keda/externalscaler", "replica/agentwire"}, // it speaks the wire only
	"cmd/sluice":                       {"adapter/builtin", "adapter/keda/trigger", "adapter/labelselector", "adapter/inspect/record", "internal/config", "metric", "replica/claim", "replica/deletion", "internal/durable", "internal/footprint", "internal/operations", "internal/pressure", "receiver", "receiver/scrape", "receiver/cgroup", "receiver/kubelet", "aggregate/usage", "receiver/ledger", "receiver/pending", "receiver/statsd", "receiver/group", "receiver/push", "receiver/identity", "aggregate/limit", "aggregate", "aggregate/answer", "aggregate/rollup", "store", "replica", "replica/agent", "replica/agents", "replica/natsbus", "adapter", "adapter/cluster", "adapter/customkind", "adapter/keda", "adapter/inspect", "adapter/autoscaler/explain", "internal/suggest", "adapter/autoscaler", "adapter/autoscaler/wake", "adapter/export", "adapter/export/otlp", "receiver/relay", "adapter/console", "adapter/policy", "receiver/credential", "aggregate/rule", "cmd/sluice/client", "cmd/sluice/command", "adapter/route"},
	"cmd/sluice/client":                {"adapter/autoscaler/document", "adapter/builtin", "adapter/labelselector", "cmd/sluice/command", "internal/config", "adapter/autoscaler/explain", "adapter/inspect", "adapter/keda/trigger", "metric", "receiver/statsd", "aggregate/rule", "internal/suggest"}, // grammars and documents, no stage
	"cmd/sluice/command":               {"internal/config", "metric", "internal/suggest"},
	"cmd/sluice/command/commandtest":   {"cmd/sluice/command"}, // of tests
	"cmd/kubectl-sluice":               {"cmd/sluice/client", "cmd/sluice/command"},
	"cmd/sluice-loadtest":              {"loadtest"},

	// HTTP push: the protocols stand on the server, and receiver/push joins them.
	"receiver/push/body":            {"internal/fair"},
	"receiver/push/number":          {"metric"},
	"receiver/push/listener":        {"internal/config", "internal/connlimit", "internal/mutualtls", "internal/ratelog", "receiver", "receiver/credential"},
	"receiver/push/httpserver":      {"adapter/inspect/record", "adapter/policy", "internal/config", "metric", "internal/connlimit", "internal/fair", "internal/ratelog", "receiver", "receiver/ledger", "receiver/pending", "receiver/credential", "receiver/push/body", "receiver/push/listener", "receiver/push/number", "internal/collect"},
	"receiver/push/native":          {"adapter/inspect", "adapter/policy", "metric", "receiver/push/httpserver", "receiver/push/number", "internal/suggest"},
	"receiver/push/statsdhttp":      {"metric", "receiver/statsd", "receiver/push/httpserver"},
	"receiver/push/pushgateway":     {"metric", "adapter/policy", "internal/connlimit", "receiver/buckets", "receiver/exposition", "receiver/group", "receiver/push/httpserver"},
	"receiver/push/remotewritehttp": {"metric", "receiver/remotewrite", "receiver/push/httpserver"},
	"receiver/push/otlphttp":        {"metric", "receiver/otlp", "receiver/push/httpserver"},
	"receiver/push/otlpgrpc":        {"internal/connlimit", "internal/fair", "receiver/otlp", "receiver/push/body", "receiver/push/httpserver", "receiver/push/listener", "internal/collect"},
	"receiver/push/serieshttp":      {"adapter/policy", "internal/connlimit", "adapter/export", "metric", "receiver/exposition", "receiver/push/httpserver", "internal/collect"},
	"receiver/push":                 {"adapter/inspect/record", "adapter/policy", "internal/config", "adapter/export", "metric", "receiver", "receiver/ledger", "receiver/pending", "receiver/credential", "receiver/group", "receiver/statsd", "receiver/push/httpserver", "receiver/push/listener", "receiver/push/native", "receiver/push/statsdhttp", "receiver/push/pushgateway", "receiver/push/remotewritehttp", "receiver/push/otlpgrpc", "receiver/push/otlphttp", "receiver/push/serieshttp"},
}

// rooms are the folders of the first level that hold packages, and the rooms that each may import: cmd joins
// all of them; receiver accepts, aggregate rolls up, store persists, replica shares, adapter serves.
var rooms = map[string][]string{
	"cmd":       {"receiver", "aggregate", "store", "replica", "adapter", "metric", "internal", "loadtest"},
	"receiver":  {"metric", "internal"},
	"aggregate": {"metric", "internal"},
	"store":     {"metric", "internal"},
	"replica":   {"aggregate", "metric", "internal"},
	"adapter":   {"replica", "store", "aggregate", "metric", "internal"},
	"metric":    {},
	"internal":  {},
	"loadtest":  {},
}

// besides are the imports between rooms that have a reason of their own.
var besides = map[string]string{
	"receiver adapter/policy":              "the push port answers reads, too",
	"receiver adapter/inspect":             "the push port answers lists, too",
	"receiver adapter/inspect/record":      "lists name who pushes, and what was rejected",
	"receiver adapter/export":              "the push port serves /metrics/series",
	"adapter receiver/exposition":          "an export is written in the format that is read there",
	"loadtest adapter/keda/externalscaler": "the protocol's generated code",
	"loadtest replica/agentwire":           "the protocol's generated code",
}

// others are the folders of the first level without packages of the product.
var others = []string{"bin", "charts", "docs", "e2e", "examples", "tools", "data"}

func roomOf(path string) string { room, _, _ := strings.Cut(path, "/"); return room }

func TestRooms(t *testing.T) {
	entries, err := os.ReadDir(".")
	must(t, err)
	for _, e := range entries {
		name := e.Name()
		if _, known := rooms[name]; !known && e.IsDir() && !strings.HasPrefix(name, ".") && !slices.Contains(others, name) {
			t.Errorf("folder %s is new at the first level: a package goes into one of its rooms", name)
		}
	}
	used := map[string]bool{}
	for from, imports := range mayImport {
		for _, to := range imports {
			a, b := roomOf(from), roomOf(to)
			reason := a + " " + to
			used[reason] = true
			if a != b && !slices.Contains(rooms[a], b) && besides[reason] == "" {
				t.Errorf("%s imports %s: %s may import %v", from, to, a, rooms[a])
			}
		}
	}
	for reason := range besides {
		if !used[reason] {
			t.Errorf("nothing imports %s any more", reason)
		}
	}
}

// onlyImporters lists who alone may import modules that would otherwise spread.
var onlyImporters = map[string][]string{
	"github.com/dgraph-io/badger/": {"store/database"},
	"k8s.io/":                      {"adapter", "adapter/autoscaler/document", "adapter/builtin", "adapter/cluster", "adapter/labelselector", "adapter/valuelist", "cmd/sluice", "cmd/sluice/client", "cmd/sluice/command", "adapter/autoscaler/explain", "adapter/route"}, // explain: quantities; command: JSONPath
	"sigs.k8s.io/":                 {"adapter", "adapter/cluster", "adapter/valuelist", "cmd/sluice"},
	"google.golang.org/grpc":       {"adapter/keda", "adapter/keda/externalscaler", "replica/agent", "replica/agents", "replica/agentwire", "loadtest", "receiver/push/otlpgrpc"}, // push/otlpgrpc: codes and the form of a status
	"github.com/google/cel-go":     {"aggregate/rule"},
	"github.com/nats-io/":          {"replica/natsbus"},
	"go.opentelemetry.io/":         {"adapter/export/otlp", "receiver/otlp", "receiver/push/otlphttp"},
	"github.com/valyala/fasthttp":  {"receiver/push", "receiver/push/httpserver", "receiver/push/native", "receiver/push/pushgateway", "receiver/push/remotewritehttp", "receiver/push/otlpgrpc", "receiver/push/otlphttp", "receiver/push/serieshttp", "loadtest"}, // loadtest: as the floor
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
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
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

// The plugin of kubectl is downloaded by people, so it links no server and no typed client.
func TestPluginLinksNoServer(t *testing.T) {
	for _, p := range listPackages(t, "-deps", "./cmd/kubectl-sluice") {
		for _, heavy := range []string{"k8s.io/apiserver", "k8s.io/client-go/kubernetes", "google.golang.org/grpc",
			"github.com/nats-io", "github.com/dgraph-io/badger", "github.com/prometheus", "html/template"} {
			if p.ImportPath == heavy || strings.HasPrefix(p.ImportPath, heavy+"/") {
				t.Errorf("cmd/kubectl-sluice depends on %s", p.ImportPath)
			}
		}
	}
}

func TestNoModuleOfKubernetesItself(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	must(t, err)
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
	must(t, err)
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
