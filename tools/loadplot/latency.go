package main

import (
	"fmt"
	"slices"
	"strings"
)

// latency are the quantiles of one figure in milliseconds.
type latency struct {
	scenario, name string
	p50, p99, max  float64
}

// latencies returns every figure that has a median, a 99th percentile and a maximum.
func (all entries) latencies() (found []latency) {
	for _, e := range all {
		for _, f := range e.Figures {
			name, isMedian := strings.CutSuffix(f.Name, "_p50")
			p99, max := e.figure(name+"_p99"), e.figure(name+"_max")
			if isMedian && f.Unit == "ms" && p99 != nil && max != nil {
				found = append(found, latency{e.title(), name, f.Median, p99.Median, max.Median})
			}
		}
	}
	return found
}

// figure returns a figure by name; nil if there is none.
func (e entry) figure(name string) *figure {
	if i := slices.IndexFunc(e.Figures, func(f figure) bool { return f.Name == name }); i >= 0 {
		return &e.Figures[i]
	}
	return nil
}

// latencyLeft is the beginning of the axis.
const latencyLeft = 240.0

// drawLatencies draws the quantiles of every latency; "" without figures.
func drawLatencies(all entries) string {
	found := all.latencies()
	if len(found) == 0 {
		return ""
	}
	p := newPicture(latencyClaim(found))
	p.height += 22
	const x = latencyLeft
	p.circle(x+4, p.height-5, 4, "s0 open")
	p.text(x+13, p.height, "soft", "start", "p50")
	p.circle(x+64, p.height-5, 6, "s0")
	p.text(x+75, p.height, "soft", "start", "p99")
	p.path([]point{{x + 122, p.height - 11}, {x + 122, p.height + 1}}, "s0 first")
	p.text(x+130, p.height, "soft", "start", "maximum")
	p.text(width-edge, p.height, "soft", "end", "milliseconds")
	var rows []dotRow
	before := ""
	for _, l := range found {
		row := dotRow{name: l.shownName(), class: l.class(), values: []float64{l.p50, l.p99, l.max}}
		row.written = fmt.Sprintf("%s, %s, %s", significant(l.p50), significant(l.p99), significant(l.max))
		if l.scenario != before {
			row.head, before = l.scenario, l.scenario
		}
		rows = append(rows, row)
	}
	dotPlot{p, latencyLeft, 500, milliseconds}.draw(rows)
	p.caption("The scale is logarithmic. Grey: receivers that only answer, measured in the same run, and the reads " +
		"by which the load test looks.")
	return p.svg()
}

// shownName returns the name in words.
func (l latency) shownName() string {
	name := strings.ReplaceAll(l.name, "_", " ")
	for _, protocol := range []string{"http", "udp", "json"} {
		if name == protocol {
			return strings.ToUpper(name)
		}
	}
	return name
}

// class shows the load test's own times apart from the server's.
func (l latency) class() string {
	if strings.HasPrefix(l.name, "floor_") || l.name == "one_read" {
		return "f"
	}
	return "s0"
}

// latencyClaim is about the slower way from a push to a reader.
func latencyClaim(found []latency) string {
	slowest := 0.0
	for _, l := range found {
		if strings.HasPrefix(l.scenario, "visible") && (l.name == "udp" || l.name == "http") {
			slowest = max(slowest, l.p99)
		}
	}
	if slowest == 0 {
		return "Latencies: p50, p99 and maximum"
	}
	return "99 % of pushed values are readable within " + milliseconds(slowest)
}
