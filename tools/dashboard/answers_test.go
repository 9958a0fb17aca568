package main

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"testing"
)

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// TestEveryPanelHasData asks a real Prometheus that has a week of all metrics for each query of each
// panel, as a Grafana does that shows the week.
func TestEveryPanelHasData(t *testing.T) {
	var queries []string
	for _, row := range rows {
		for _, panel := range row.panels {
			for _, query := range panel.queries {
				queries = append(queries, chosen(query.expr))
			}
		}
	}
	p := withAWeek(t, queries)
	for _, variable := range []string{"cluster", "job"} {
		var values []string
		p.ask(t, "/api/v1/label/"+variable+"/values", url.Values{"match[]": {"sluice_build_info"}}, &values)
		if len(values) != 1 {
			t.Errorf("the variable %s has the values %v", variable, values)
		}
	}
	for _, row := range rows {
		for _, panel := range row.panels {
			for _, query := range panel.queries {
				lines := p.inTheWeek(t, chosen(query.expr))
				if !slices.ContainsFunc(lines, line.hasPoints) {
					t.Errorf("%s / %s: no data: %s", row.title, panel.title, query.expr)
				}
				for _, label := range legendLabel.FindAllStringSubmatch(query.legend, -1) {
					if len(lines) > 0 && lines[0].labels[label[1]] == "" {
						t.Errorf("%s / %s: the legend has {{%s}}, a series %v", row.title, panel.title, label[1], lines[0].labels)
					}
				}
			}
		}
	}
	checkPicture(t, p)
}

// hasPoints: also more than a day of them, so that a line is seen.
func (l line) hasPoints() bool {
	points := 0
	for _, value := range l.values {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			points++
		}
	}
	return points > 10
}
