package loadtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// "make figures" measures every scenario.
func TestMakefileNamesEveryScenario(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range figureScenarios {
		names = append(names, s.Name)
	}
	if want := "\nOTHERS = " + strings.Join(names, " ") + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
}

// Every scenario of figures runs in a small size and adds up. Its figures are not checked.
func TestFigureScenariosAddUp(t *testing.T) {
	binary := sluice(t)
	for _, s := range figureScenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r, err := Measure(t.Context(), Config{Binary: binary, Scenarios: []string{s.Name}, Runs: 1, Short: true})
			if err != nil {
				t.Fatal(err)
			}
			result := r.Scenarios[0]
			if len(result.Figures) == 0 && !slices.ContainsFunc(result.Notes, func(n string) bool { return strings.HasPrefix(n, "skipped: ") }) {
				t.Errorf("no figures, and no word on why: %+v", result)
			}
			for _, f := range result.Figures {
				if f.Median < 0 {
					t.Errorf("%s is %v %s", f.Name, f.Median, f.Unit)
				}
			}
		})
	}
}
