package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A test of the load test compares testdata/report.json with its output.
var example = filepath.Join("..", "..", "loadtest", "testdata", "report.json")

// drawn runs loadplot and returns the texts of the files, by name.
func drawn(t *testing.T, paths ...string) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "figures")
	must(t, run(paths, out))
	files, err := os.ReadDir(out)
	must(t, err)
	texts := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(out, f.Name()))
		must(t, err)
		texts[f.Name()] = string(text)
	}
	return texts
}

// changed writes a copy of the example with other entries.
func changed(t *testing.T, change func(entries) entries) string {
	t.Helper()
	r, err := readReport(example)
	must(t, err)
	r.Entries = change(r.Entries)
	text, err := json.Marshal(r)
	must(t, err)
	path := filepath.Join(t.TempDir(), "report.json")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

// has checks that a text has every part.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func TestPictures(t *testing.T) {
	files := drawn(t, example)
	has(t, files["cost.svg"], "Sluice spends 2 times brubeck&#39;s CPU on a line (plain-10k,", "400,000 lines/s)",
		">plain-10k<", ">2 × brubeck<", ">1.5 µs<", ">400 ns<", ">Sluice 80 ns<", ">brubeck<", ">blocking floor<", ">gathering floor<")
	if strings.Contains(files["cost.svg"], ">80 ns<") {
		t.Error("the last value is beside the point and beside the name")
	}
	has(t, files["latency.svg"], "99 % of pushed values are readable within 4.5 ms", ">visible<", ">UDP<", ">1.0, 4.5, 4.5<")
	has(t, files["memory.svg"], "750,000 series: Sluice takes 500 MiB", ">just after the start<", ">10,000 series<", ">750,000 series<", ">brubeck<", ">7 MiB<")
	for name, text := range files {
		if filepath.Ext(name) == ".svg" {
			wellFormed(t, name, text)
		}
	}
}

// wellFormed checks that a picture is XML, follows the reader's colour scheme, and loads nothing.
func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	has(t, text, "@media (prefers-color-scheme: dark)", "viewBox=")
	for _, wrong := range []string{"NaN", "Inf", "<script", "href", "url("} {
		if strings.Contains(text, wrong) {
			t.Errorf("%s has %s", name, wrong)
		}
	}
}

// Servers, rates and floors may be missing.
func TestPicturesOfParts(t *testing.T) {
	only := func(is func(entry) bool) map[string]string {
		return drawn(t, changed(t, func(all entries) entries { return all.where(is) }))
	}
	alone := only(func(e entry) bool { return e.Server == sluice })
	has(t, alone["cost.svg"], "CPU time per line, by rate", ">tagged-10k<", ">tagged-750k<")
	peers := only(func(e entry) bool { return e.Server != sluice })
	has(t, peers["cost.svg"], "CPU time per line, by rate", ">brubeck<", ">blocking floor<")
	has(t, peers["memory.svg"], "Resident memory, by number of series")
	has(t, peers["figures.md"], "| plain-10k | 20,000 | 50.0 | 100 | 250 |")
	fast := only(func(e entry) bool { return e.Load != nil && e.Load.Rate == flatOut })
	has(t, fast["cost.svg"], "CPU time per line, by rate")
	if strings.Contains(fast["figures.md"], "Everyday rates") {
		t.Errorf("everyday rates in:\n%s", fast["figures.md"])
	}
	uneven := only(func(e entry) bool { return e.Load == nil || e.Server == sluice || e.Load.Rate == 20_000 })
	has(t, uneven["cost.svg"], ">6 × brubeck<")
	has(t, uneven["figures.md"], "| plain-10k | 400,000 | 50.0 | 100 | **400** |  |")
	if names := len(only(func(e entry) bool { return e.Load == nil })); names != 2 {
		t.Errorf("%d files: want tables and latencies", names)
	}
	if names := len(only(func(e entry) bool { return e.Load != nil })); names != 3 {
		t.Errorf("%d files: want tables, costs and memory", names)
	}
}

// A picture of an earlier report is removed if there is nothing to draw.
func TestOldPicturesAreRemoved(t *testing.T) {
	out := t.TempDir()
	linesOnly := changed(t, func(all entries) entries { return all.where(func(e entry) bool { return e.Load != nil }) })
	for _, path := range []string{example, linesOnly} {
		must(t, run([]string{path}, out))
	}
	if _, err := os.Stat(filepath.Join(out, "latency.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want no latency.svg", err)
	}
}

// The cost of lines at the paced rates comes first, then flat out, then the aims.
func TestTables(t *testing.T) {
	text := drawn(t, example)["figures.md"]
	has(t, text,
		"| scenario | lines/s | gathering floor | blocking floor | Sluice | brubeck |",
		"| plain-10k | 20,000 | 50.0 | 100 | **1,500** | 250 |", "| plain-10k | flat out | 50.0 | 100 | **80.0** | 160 |",
		"| plain-10k, 400,000/s | cheapest_peer_ratio | 0.50 | ≥ 1 | missed |", "| visible | udp_p99 | 4.50 ms | ≤ 10 | met |",
		"| tagged-10k | flat out | Sluice | 250.0 (100.0 to 500.0) |", "| visible | lines_per_second | 1,000,000 lines/s | | |",
	)
	last := -1
	for _, title := range []string{"## Everyday rates", "## Flat out", "## Aims", "## Lines", "## Other figures"} {
		at := strings.Index(text, title)
		if at <= last {
			t.Errorf("%q is not in its place in:\n%s", title, text)
		}
		last = at
	}
}

func TestLostLinesAreShown(t *testing.T) {
	e := entry{Server: "brubeck", Load: &load{Lines: 1000, PerDatagram: 50}, Columns: map[string]spread{
		cpuPerLine: {Median: 200}, droppedGrams: {Median: 1},
	}}
	if got := (entries{e}).cell(); got != "200 (5 % lost)" {
		t.Errorf("%q: want the share that was lost", got)
	}
}

// Short scenarios are apart from the others.
func TestShortScenariosAreMarked(t *testing.T) {
	short := changed(t, func(all entries) entries {
		for i := range all {
			all[i].Short = true
		}
		return all
	})
	files := drawn(t, example, short)
	has(t, files["figures.md"], "| plain-10k | 20,000 |", "| plain-10k (short) | 20,000 |", "| visible (short) | udp_p99 |")
	has(t, files["cost.svg"], ">plain-10k<", ">plain-10k (short)<")
	has(t, files["latency.svg"], ">visible<", ">visible (short)<")
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
	for got, want := range map[string]string{
		significant(0): "0", significant(0.0123): "0.012", significant(1.96): "2.0", significant(1234.4): "1,234",
		nanoseconds(56.4): "56 ns", nanoseconds(999.6): "1 µs", nanoseconds(1570): "1.6 µs",
		milliseconds(0.2): "200 µs", milliseconds(2.02): "2 ms", milliseconds(1500): "1.5 s",
		mebibytes(7.4): "7.4 MiB", mebibytes(4608): "4,608 MiB", perSecond(20_000): "20k", perSecond(10e6): "10M", perSecond(500): "500",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		values    []float64
		low, high float64
		ticks     []float64
	}{
		{[]float64{30, 7000}, 20, 10_000, []float64{100, 1000, 10_000}},
		{[]float64{300, 700}, 200, 2000, []float64{200, 500, 1000, 2000}},
		{[]float64{100}, 100, 1000, []float64{100, 1000}},
		{nil, 1, 10, []float64{1, 10}},
		{[]float64{0, 50}, 50, 500, []float64{50, 100, 200, 500}},
	} {
		a := newAxis(c.values, 0, 100)
		if !near(a.low, c.low) || !near(a.high, c.high) || !slices.EqualFunc(a.ticks(), c.ticks, near) {
			t.Errorf("%v: %+v with ticks %v, want %v to %v with %v", c.values, a, a.ticks(), c.low, c.high, c.ticks)
		}
		if a.at(a.low) != 0 || !near(a.at(a.high), 100) || !near(a.at(a.high*10), 100) || !near(a.at(math.Sqrt(a.low*a.high)), 50) {
			t.Errorf("%v: places %v, %v", c.values, a.at(a.low), a.at(a.high))
		}
	}
}

func near(a, b float64) bool { return a > 0.999*b && a < 1.001*b }

func TestLabelsStayApart(t *testing.T) {
	if got, want := apart([]float64{0, 5, 50, 99, 100}, 10, 100), []float64{0, 10, 50, 90, 100}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFaults(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.json")
	must(t, os.WriteFile(empty, []byte(`{"scenarios":[]}`), 0o600))
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{nil, "no report"}, {[]string{empty}, "has no scenarios"}, {[]string{empty + "x"}, "no such file"},
	} {
		if err := run(c.paths, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want %q", err, c.want)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
