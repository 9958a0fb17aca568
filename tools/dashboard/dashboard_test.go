package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFileIsCurrent: the chart has the dashboard of this source.
func TestFileIsCurrent(t *testing.T) {
	want, err := render()
	must(t, err)
	got, err := os.ReadFile("../" + path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: go run ./dashboard", path)
	}
}

func TestEveryMetricIsChosen(t *testing.T) {
	for expr, want := range map[string]string{
		`sluice_series`: `sluice_series{cluster=~"$cluster",job=~"$job"}`,
		`sum by (reason) (rate(sluice_a_total{reason!="x"}[5m]))`: `sum by (reason) (rate(sluice_a_total{cluster=~"$cluster",job=~"$job",reason!="x"}[5m]))`,
		`time()`: `time()`,
	} {
		if got := chosen(expr); got != want {
			t.Errorf("%s becomes %s, want %s", expr, got, want)
		}
	}
}

// TestPanelsDoNotOverlap: the grid has room for each.
func TestPanelsDoNotOverlap(t *testing.T) {
	taken := map[[2]int]any{}
	for _, panel := range layOut(rows) {
		place := panel["gridPos"].(object)
		for x := place["x"].(int); x < place["x"].(int)+place["w"].(int); x++ {
			for y := place["y"].(int); y < place["y"].(int)+place["h"].(int); y++ {
				if x >= 24 || taken[[2]int{x, y}] != nil {
					t.Fatalf("%v has no room at %d, %d, where %v is", panel["title"], x, y, taken[[2]int{x, y}])
				}
				taken[[2]int{x, y}] = panel["title"]
			}
		}
	}
}
