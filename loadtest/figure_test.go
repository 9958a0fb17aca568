package loadtest

import (
	"slices"
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	r := &Result{Scenario: "visible", About: "push to visible", Notes: []string{"nothing was checked"}}
	for _, ms := range []float64{4, 12.25, 8} {
		err := r.addFigures([]Figure{
			{Name: "p99", Unit: "ms", Value: ms, Aim: Aim{Most: 10}},
			{Name: "pushes", Unit: "requests/s", Value: 1000 * ms, Aim: Aim{Least: 9000}},
			{Name: "bytes", Unit: "B", Value: 7},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Figures[0]; got.Spread != (Spread{8, 4, 12.25}) || !slices.Equal(got.Values, []float64{4, 12.25, 8}) {
		t.Errorf("%+v: want median 8 of 4 to 12.25", got)
	}
	if err := r.addFigures([]Figure{{Name: "p99", Unit: "s"}}); err == nil {
		t.Error("a figure changed its unit, and there is no error")
	}
	var b strings.Builder
	if err := (&Report{Scenarios: []*Result{r}}).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
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
