package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report is the shown part of a load test's JSON.
type report struct {
	Version string `json:"version"`
	Machine struct {
		CPUs   int     `json:"cpus"`
		Kernel string  `json:"kernel"`
		Load   float64 `json:"load_average"`
		Pinned bool    `json:"pinned"`
		Buffer int     `json:"socket_buffer_bytes"`
	} `json:"machine"`
	Scenarios []scenario `json:"scenarios"`
}

type scenario struct {
	Name  string `json:"scenario"`
	Short bool   `json:"short"`
	Load  *struct {
		Target string `json:"target"`
		Rate   int    `json:"rate_lines_per_second"`
	} `json:"load"`
	Columns map[string]spread `json:"columns"`
	Figures []figure          `json:"figures"`
}

// title returns the name. The title of a short run differs, so that short runs are shown apart.
func (s scenario) title() string {
	if s.Short {
		return s.Name + " (short)"
	}
	return s.Name
}

type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Aim  *struct {
		Most  float64 `json:"most"`
		Least float64 `json:"least"`
	} `json:"aim"`
	spread
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
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
		return report{}, fmt.Errorf("%s has no scenarios; must be a report of sluice-loadtest -o json", path)
	}
	return r, nil
}

// server returns the name of the measured server: "sluice", or the target's program.
func (r report) server() string {
	for _, s := range r.Scenarios {
		if s.Load != nil && s.Load.Target != "" {
			return program(s.Load.Target)
		}
	}
	return "sluice"
}

// program returns the name of the program in a shell's command line, after "cd x &&" and
// environment assignments.
func program(target string) string {
	steps := strings.Split(target, "&&")
	for _, word := range strings.Fields(steps[len(steps)-1]) {
		if !strings.Contains(word, "=") {
			return filepath.Base(word)
		}
	}
	return target
}

// circumstances describes the version and the machine.
func (r report) circumstances() string {
	pinned := "not pinned"
	if r.Machine.Pinned {
		pinned = "server and sender pinned to one each"
	}
	return fmt.Sprintf("measured by %s, %d processors (%s), Linux %s, socket buffer %d KiB, load average before %.2f",
		r.Version, r.Machine.CPUs, pinned, r.Machine.Kernel, r.Machine.Buffer>>10, r.Machine.Load)
}

// column returns the median of a column for each named scenario; 0 if the report lacks it.
func (r report) column(name string, scenarios []string) []float64 {
	values := make([]float64, len(scenarios))
	for i, want := range scenarios {
		for _, s := range r.Scenarios {
			if s.title() == want {
				values[i] = s.Columns[name].Median
			}
		}
	}
	return values
}

// loads returns the titles of the scenarios of lines in all reports, in the order of the reports.
func loads(reports []report) (names []string) {
	seen := map[string]bool{}
	for _, r := range reports {
		for _, s := range r.Scenarios {
			if len(s.Columns) > 0 && !seen[s.title()] {
				seen[s.title()] = true
				names = append(names, s.title())
			}
		}
	}
	return names
}

// latencies returns all figures in milliseconds.
func (r report) latencies() (names []string, values []float64) {
	for _, s := range r.Scenarios {
		for _, f := range s.Figures {
			if f.Unit == "ms" {
				names = append(names, s.title()+"\n"+f.Name)
				values = append(values, f.Median)
			}
		}
	}
	return names, values
}
