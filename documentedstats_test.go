package sluice_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// TestEveryKindAndStatIsDocumented: a table of the documentation has one row for each kind, "|
// timer | `mean` | ...", with all stats of the kind, the default first.
func TestEveryKindAndStatIsDocumented(t *testing.T) {
	rows := documentedRows(t)
	for _, k := range metric.Kinds() {
		documented := slices.ContainsFunc(rows, func(row string) bool { return documents(row, k) })
		if !documented {
			t.Errorf("no table of README.md or docs/*.md has a row for the kind %s with the stats %s", k, metric.StatNames(k.Stats()))
		}
	}
}

// documents reports whether a row is of a kind and names all its stats and no other, the default
// first.
func documents(row string, k metric.Kind) bool {
	cells := strings.Split(row, "|")
	if len(cells) < 4 || strings.TrimSpace(cells[1]) != k.String() {
		return false
	}
	var named []metric.Stat
	for i, quoted := range strings.Split(strings.Join(cells[2:], "|"), "`") {
		if s, ok := metric.ParseStat(quoted); ok && i%2 == 1 {
			named = append(named, s)
		}
	}
	want := slices.Clone(k.Stats())
	if len(named) == 0 || named[0] != k.DefaultStat() {
		return false
	}
	slices.Sort(named)
	slices.Sort(want)
	return slices.Equal(named, want)
}

func documentedRows(t *testing.T) (rows []string) {
	t.Helper()
	files := []string{"README.md"}
	err := filepath.WalkDir("docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| ") {
				rows = append(rows, line)
			}
		}
	}
	return rows
}

// TestAdmissionKnowsTheStats: the CEL of the chart's admission parses and completes names as this
// package does.
func TestAdmissionKnowsTheStats(t *testing.T) {
	text := readFile(t, "charts/sluice/templates/_admission.tpl")
	quoted := func(stats []metric.Stat, prefix string) string {
		var all []string
		for _, s := range stats {
			all = append(all, prefix+s.String())
		}
		return `"` + strings.Join(all, `" "`) + `"`
	}
	var defaults, unwindowed []metric.Stat
	for _, k := range metric.Kinds() {
		defaults = append(defaults, k.DefaultStat())
	}
	slices.Sort(defaults)
	for _, s := range metric.Stats() {
		if !s.Windowed() {
			unwindowed = append(unwindowed, s)
		}
	}
	instants := "[':total', ':last']"
	if got := quoted(unwindowed, ":"); strings.NewReplacer(`" "`, `', '`, `"`, `'`).Replace(got) != instants[1:len(instants)-1] {
		t.Errorf("stats without a window are %s; the chart knows %s", got, instants)
	}
	for _, want := range []string{"(list " + quoted(metric.Stats(), "") + ")", "list " + quoted(defaults, "") + " -", instants} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart's admission has no %s", want)
		}
	}
}
