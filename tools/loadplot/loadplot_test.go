package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A test of the load test compares testdata/report.json with its output.
var example = filepath.Join("..", "..", "loadtest", "testdata", "report.json")

func TestDraws(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "a.svg")
	if err := run([]string{example}, svg); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"What a line costs", "tagged-10k", "sluice", "blocking floor", "Latency", "visible", "p99"} {
		if !strings.Contains(string(text), ">"+want+"<") {
			t.Errorf("no text %q in the drawing", want)
		}
	}
	if err := run([]string{example, example}, svg); err != nil {
		t.Errorf("two reports: %v", err)
	}
}

func TestReports(t *testing.T) {
	r, err := readReport(example)
	if err != nil {
		t.Fatal(err)
	}
	if names := loads([]report{r, r}); len(names) != 1 || r.column("cpu_ns_per_line", names)[0] != 250 || r.column("floor_ns_per_line", names)[0] != 50 {
		t.Errorf("%v, %v: want what is in the report", names, r)
	}
	for _, target := range []string{"/usr/bin/statsd_exporter --x={udp}", "GOGC=50 statsd_exporter --x={udp}", "cd /usr/bin && A=1 B=2 ./statsd_exporter {udp}"} {
		r.Scenarios[0].Load.Target = target
		if r.server() != "statsd_exporter" {
			t.Errorf("%s: server %q", target, r.server())
		}
	}
}

// Short scenarios are apart from the others.
func TestShortScenariosAreMarked(t *testing.T) {
	whole, err := readReport(example)
	if err != nil {
		t.Fatal(err)
	}
	short, err := readReport(example)
	if err != nil {
		t.Fatal(err)
	}
	for i := range short.Scenarios {
		short.Scenarios[i].Short = true
	}
	if names := strings.Join(loads([]report{whole, short}), ", "); names != "tagged-10k, tagged-10k (short)" {
		t.Errorf("loads %s", names)
	}
	if names, _ := short.latencies(); len(names) == 0 || names[0] != "visible (short)\np99" {
		t.Errorf("latencies %q", names)
	}
	path := filepath.Join(t.TempDir(), "a.md")
	if err := writeTable([]report{short}, path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "| tagged-10k (short) |") || !strings.Contains(string(text), "| visible (short) |") {
		t.Errorf("%v: no scenario is marked in:\n%s", err, text)
	}
}

func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	if err := run([]string{example}, path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| scenario | server | ns/line | blocking floor |", "| tagged-10k | sluice | 250.0 (100.0 to 500.0) | 100.0 | 2.50 (1.00 to 5.00) | 5.00 (2.00 to 10.00) | 500 | 0 | 0 |",
		"| visible | sluice | p99 | 4.50 ms | ≤ 10 | met |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		value  float64
		digits int
		want   string
	}{{0, 0, "0"}, {999, 0, "999"}, {1234567.8, 1, "1,234,567.8"}, {-1234, 0, "-1,234"}, {0.05, -1, "0.05"}, {50000, -1, "50,000"}} {
		if got := number(c.value, c.digits); got != c.want {
			t.Errorf("%v: %s, want %s", c.value, got, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte(`{"scenarios":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paths []string
		out   string
		want  string
	}{
		{nil, "a.svg", "no report"}, {[]string{empty}, "a.svg", "has no scenarios"}, {[]string{example}, "a.gif", "must end in .svg or .md"},
	} {
		if err := run(c.paths, c.out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want %q", err, c.want)
		}
	}
}
