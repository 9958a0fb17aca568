package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	metricsFile  = "../../METRICS.md"
	metricsBegin = "<!-- the rest is written by: go test ./cmd/sluice -run TestMetrics -update -->\n"
)

// METRICS.md lists every metric that a running server shows, and no other, with type, labels and meaning.
func TestMetricsAreDocumented(t *testing.T) {
	p := started(t, t.TempDir(), "--statsd-unix", t.TempDir()+"/stream")
	useEverything(t, p)
	table := metricsTable(t, p.registry)

	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	introduction, _, ok := strings.Cut(string(text), metricsBegin)
	if !ok {
		t.Fatalf("%s has lost the line %q", metricsFile, metricsBegin)
	}
	for _, reason := range metric.Reasons() {
		if !strings.Contains(introduction, "| `"+reason.String()+"` | ") {
			t.Errorf("%s does not say what reason %s means", metricsFile, reason)
		}
	}
	held(t, metricsFile, introduction+metricsBegin+table)
}

// useEverything makes a server show the metrics that appear with their first use.
func useEverything(t *testing.T, p *dataPath) {
	t.Helper()
	if code, _, errs := called(t, "push", "--statsd", p.udpAddress(), "seen:1|c", "lost:1|c"); code != exitOK {
		t.Fatal(errs)
	}
	if code, _, errs := called(t, "push", "--http", "http://"+p.push.Addr().String(), "--counter", "pushed", "1", "--sync"); code != exitOK {
		t.Fatal(errs)
	}
	if code, _, errs := called(t, "get", "--kubeconfig", p.kubeconfig, "external", "pushed"); code != exitOK {
		t.Fatal(errs)
	}
}

// metricsTable prints what is gathered as a table. Names of the Go runtime's own metrics change with its
// versions and are left to its documentation.
func metricsTable(t *testing.T, gatherer prometheus.Gatherer) string {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	rows := 0
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "sluice_") {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("metric %s: want names that begin with sluice_, go_ or process_", name)
			}
			continue
		}
		rows++
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(family.GetType().String()), labelsOf(family), family.GetHelp())
	}
	if rows < 20 {
		t.Errorf("%d metrics gathered: want those of every stage", rows)
	}
	return b.String()
}

func labelsOf(family *dto.MetricFamily) string {
	var names []string
	for _, m := range family.GetMetric() {
		for _, pair := range m.GetLabel() {
			if name := "`" + pair.GetName() + "`"; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
