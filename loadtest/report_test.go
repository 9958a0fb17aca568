package loadtest

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func reported() *Result {
	r := &Result{Scenario: "tagged-10k", Server: sluiceName, Load: &Load{LinesPerRun: 2000, LinesPerDatagram: 24}}
	for _, cpu := range []time.Duration{300, 100, 500, 200} {
		r.Runs = append(r.Runs, Run{
			Server:   Taken{Sent: 2000, Taken: 1000, User: 700 * cpu, System: 300 * cpu, Sending: time.Second, Taking: 2 * time.Second},
			Floor:    Taken{Sent: 2000, Taken: 2000, System: 100_000, Sending: time.Second, Taking: time.Second},
			Blocking: Taken{Sent: 2000, Taken: 2000, System: 200_000, Sending: time.Second, Taking: time.Second},
		})
	}
	return r
}

func TestSpread(t *testing.T) {
	r := reported()
	if got, want := r.Over(func(r Run) float64 { return r.Server.CPUPerLine() }), (Spread{250, 100, 500}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	r.Runs = r.Runs[:3]
	if got, want := r.Over(Run.Ratio), (Spread{6, 2, 10}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := (&Report{Scenarios: []*Result{reported()}}).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, line := range strings.Split(b.String(), "\n") {
		if fields := strings.Fields(line); len(fields) == len(figures)-1+3 || len(fields) == len(figures)+1 {
			rows[fields[0]] = fields
		}
	}
	// seconds offered taken drops busy ns user system floor drops ratio blocking ratio peak anon
	if got, want := strings.Join(rows["1"], " "), "1 2.00 2,000 500 0 0.00 300.0 210.0 90.0 50.0 0 6.00 100.0 3.00 0 0 0 0"; got != want {
		t.Errorf("first row %q, want %q in\n%s", got, want, b.String())
	}
	for _, name := range []string{"median", "min", "max"} {
		if rows[name] == nil {
			t.Errorf("no row %q in\n%s", name, b.String())
		}
	}
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := (&Report{Scenarios: []*Result{reported()}}).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Scenarios []struct {
			Scenario string
			Runs     []Run
			Columns  map[string]Spread
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &report); err != nil {
		t.Fatal(err)
	}
	got := report.Scenarios[0]
	if got.Scenario != "tagged-10k" || len(got.Runs) != 4 || got.Columns["cpu_ns_per_line"] != (Spread{250, 100, 500}) {
		t.Errorf("read back as %+v", got)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// tools/loadplot plots the example report in its test.
func TestExampleReport(t *testing.T) {
	latency := &Result{Scenario: "visible", Server: sluiceName, About: "push to visible"}
	if err := latency.addFigures([]Figure{{Name: "p99", Unit: "ms", Value: 4.5, Aim: Aim{Most: 10}}}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := (&Report{Scenarios: []*Result{reported(), latency}}).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.json")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != b.String() {
		t.Errorf("the example report is not as in %s (%v): look, then go test ./loadtest -update", golden, err)
	}
}

func TestGrouped(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678", -123: "-123", -1234: "-1,234"} {
		if got := grouped(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
