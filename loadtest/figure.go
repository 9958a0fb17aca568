package loadtest

import (
	"fmt"
	"slices"
	"time"
)

// Figure is a named number measured in one run.
type Figure struct {
	// Name is in snake_case, without the unit: "restored_after".
	Name string
	// Unit is the unit's usual spelling: "ms", "B", "MiB", "lines/s", or "" for a plain number.
	Unit string
	// Value is the figure's value in this run.
	Value float64
	// Aim is the target value; the zero Aim means none.
	Aim Aim
}

// Aim is the target value of a figure, as a bound in the figure's unit. A missed aim is reported
// and fails nothing.
type Aim struct {
	Most  float64 `json:"most,omitempty"`  // 0: none
	Least float64 `json:"least,omitempty"` // 0: none
}

// Met reports whether a value is within the bound.
func (a Aim) Met(v float64) bool { return (a.Most == 0 || v <= a.Most) && v >= a.Least }

func (a Aim) String() string {
	switch {
	case a.Most != 0 && a.Least != 0:
		return formatFigure(a.Least) + " to " + formatFigure(a.Most)
	case a.Most != 0:
		return "≤ " + formatFigure(a.Most)
	case a.Least != 0:
		return "≥ " + formatFigure(a.Least)
	}
	return ""
}

// Measured is a figure over all runs.
type Measured struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	Aim  *Aim   `json:"aim,omitempty"`
	Spread
	Values []float64 `json:"values"`
}

// addFigures adds the figures of one run.
func (r *Result) addFigures(figures []Figure) error {
	for _, f := range figures {
		i := slices.IndexFunc(r.Figures, func(m Measured) bool { return m.Name == f.Name })
		if i < 0 {
			i = len(r.Figures)
			m := Measured{Name: f.Name, Unit: f.Unit}
			if f.Aim != (Aim{}) {
				m.Aim = &f.Aim
			}
			r.Figures = append(r.Figures, m)
		}
		m := &r.Figures[i]
		if m.Unit != f.Unit {
			return fmt.Errorf("figure %s is in %q, and was in %q the run before", f.Name, f.Unit, m.Unit)
		}
		m.Values = append(m.Values, f.Value)
		m.Spread = spread(m.Values)
	}
	return nil
}

// spread returns the median, the minimum and the maximum.
func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	all := slices.Sorted(slices.Values(values))
	middle := len(all) / 2
	median := all[middle]
	if len(all)%2 == 0 {
		median = (all[middle-1] + all[middle]) / 2
	}
	return Spread{Median: median, Min: all[0], Max: all[len(all)-1]}
}

// formatFigure prints large numbers whole and small ones with three significant digits.
func formatFigure(v float64) string {
	if v >= 100 || v <= -100 || v == float64(int64(v)) {
		return grouped(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// durations are repeated measurements of one thing.
type durations []time.Duration

// figures returns the median, the 99th percentile and the maximum in milliseconds. The aim applies
// to p99.
func (d durations) figures(name string, aim Aim) []Figure {
	sorted := slices.Sorted(slices.Values(d))
	figures := []Figure{
		{Name: name + "_p50", Unit: "ms", Value: milliseconds(percentile(sorted, 50))},
		{Name: name + "_p99", Unit: "ms", Value: milliseconds(percentile(sorted, 99)), Aim: aim},
		{Name: name + "_max", Unit: "ms", Value: milliseconds(percentile(sorted, 100))},
	}
	return figures
}

// percentile returns the nearest-rank percentile of sorted durations; 0 if there are none.
func percentile(sorted durations, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
