package loadtest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
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
	must(t, (&Report{Scenarios: []*Result{reported()}}).WriteTable(&b))
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

var update = flag.Bool("update", false, "write the golden files anew")

// entry returns a load's result of one run. The floors cost 50 and 100 ns.
func entry(scenario, server string, series, rate int, nanoseconds, idle, resident int64) *Result {
	const lines = 1000
	taken := func(nanoseconds int64) Taken {
		return Taken{Sent: lines, Taken: lines, User: time.Duration(lines * nanoseconds), Sending: time.Millisecond, Taking: time.Millisecond}
	}
	return &Result{
		Scenario: scenario, Server: server,
		Load: &Load{Series: series, LinesPerRun: lines, LinesPerDatagram: 50, RatePerSecond: rate},
		Runs: []Run{{
			Server: taken(nanoseconds), Floor: taken(50), Blocking: taken(100),
			Idle: Memory{AnonBytes: idle << 20}, Memory: Memory{AnonBytes: resident << 20},
		}},
	}
}

// exampleResults are every kind of result that tools/loadplot draws.
func exampleResults(t *testing.T) []*Result {
	latency := &Result{Scenario: "visible", Server: sluiceName, About: "push to visible"}
	for _, err := range []error{
		latency.addFigures(durations{time.Millisecond, 4500 * time.Microsecond}.figures("udp", Aim{Most: 10})),
		latency.addFigures([]Figure{{Name: "lines_per_second", Unit: "lines/s", Value: 1e6}}),
	} {
		must(t, err)
	}
	paced := entry("plain-10k", sluiceName, 10_000, 400_000, 400, 60, 80)
	must(t, paced.addFigures([]Figure{{Name: "cheapest_peer_ratio", Value: 0.5, Aim: Aim{Least: 1}}}))
	return []*Result{
		reported(),
		entry("plain-10k", sluiceName, 10_000, 20_000, 1500, 60, 70), entry("plain-10k", "brubeck", 10_000, 20_000, 250, 7, 9),
		paced, entry("plain-10k", "brubeck", 10_000, 400_000, 200, 7, 9),
		entry("plain-10k", sluiceName, 10_000, FlatOut, 80, 60, 90), entry("plain-10k", "brubeck", 10_000, FlatOut, 160, 7, 9),
		entry("tagged-750k", sluiceName, 750_000, 400_000, 800, 60, 500), latency,
	}
}

// tools/loadplot plots the example report in its test.
func TestExampleReport(t *testing.T) {
	var b strings.Builder
	must(t, (&Report{Scenarios: exampleResults(t)}).WriteJSON(&b))
	golden := filepath.Join("testdata", "report.json")
	if *update {
		must(t, os.WriteFile(golden, []byte(b.String()), 0o644))
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

func TestFigures(t *testing.T) {
	r := &Result{Scenario: "visible", About: "push to visible", Notes: []string{"nothing was checked"}}
	for _, ms := range []float64{4, 12.25, 8} {
		err := r.addFigures([]Figure{
			{Name: "p99", Unit: "ms", Value: ms, Aim: Aim{Most: 10}},
			{Name: "pushes", Unit: "requests/s", Value: 1000 * ms, Aim: Aim{Least: 9000}},
			{Name: "bytes", Unit: "B", Value: 7},
		})
		must(t, err)
	}
	if got := r.Figures[0]; got.Spread != (Spread{8, 4, 12.25}) || !slices.Equal(got.Values, []float64{4, 12.25, 8}) {
		t.Errorf("%+v: want median 8 of 4 to 12.25", got)
	}
	if err := r.addFigures([]Figure{{Name: "p99", Unit: "s"}}); err == nil {
		t.Error("a figure changed its unit, and there is no error")
	}
	var b strings.Builder
	must(t, (&Report{Scenarios: []*Result{r}}).WriteTable(&b))
	for _, want := range []string{
		"visible: push to visible", "p99 8 4 12.2 ms ≤ 10 met", "pushes 8,000 4,000 12,250 requests/s ≥ 9,000 missed", "bytes 7 7 7 B",
		"nothing was checked",
	} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
}

func TestAim(t *testing.T) {
	for _, c := range []struct {
		aim   Aim
		value float64
		met   bool
	}{
		{Aim{}, 5, true}, {Aim{Most: 5}, 5, true}, {Aim{Most: 5}, 5.1, false}, {Aim{Least: 5}, 5, true},
		{Aim{Least: 5}, 4.9, false}, {Aim{Least: 1, Most: 2}, 3, false},
	} {
		if c.aim.Met(c.value) != c.met {
			t.Errorf("%v of aim %q: met %v, want %v", c.value, c.aim, !c.met, c.met)
		}
	}
}
