package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report is what of a load test's JSON is drawn.
type report struct {
	Scenarios []scenario `json:"scenarios"`
}

type scenario struct {
	Name string `json:"scenario"`
	Load *struct {
		Target string `json:"target"`
	} `json:"load"`
	Columns map[string]spread `json:"columns"`
	Figures []struct {
		Name string `json:"name"`
		Unit string `json:"unit"`
		spread
	} `json:"figures"`
}

type spread struct {
	Median float64 `json:"median"`
}

func readReport(path string) (r report, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return report{}, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return report{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Scenarios) == 0 {
		return report{}, fmt.Errorf("%s: no scenarios: want what sluice loadtest -o json wrote", path)
	}
	return r, nil
}

// server is who was measured: the program's name where it was not ours.
func (r report) server() string {
	for _, s := range r.Scenarios {
		if s.Load != nil && s.Load.Target != "" {
			return filepath.Base(strings.Fields(s.Load.Target)[0])
		}
	}
	return "sluice"
}

// column is the median of a column in every scenario named; 0 where the report has none.
func (r report) column(name string, scenarios []string) []float64 {
	values := make([]float64, len(scenarios))
	for i, want := range scenarios {
		for _, s := range r.Scenarios {
			if s.Name == want {
				values[i] = s.Columns[name].Median
			}
		}
	}
	return values
}

// loads are the scenarios of all reports in which a line's cost was measured, in their order.
func loads(reports []report) (names []string) {
	seen := map[string]bool{}
	for _, r := range reports {
		for _, s := range r.Scenarios {
			if len(s.Columns) > 0 && !seen[s.Name] {
				seen[s.Name] = true
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// latencies are all figures in milliseconds.
func (r report) latencies() (names []string, values []float64) {
	for _, s := range r.Scenarios {
		for _, f := range s.Figures {
			if f.Unit == "ms" {
				names = append(names, s.Name+"\n"+f.Name)
				values = append(values, f.Median)
			}
		}
	}
	return names, values
}
