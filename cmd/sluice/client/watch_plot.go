package client

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// watched is all reads of a watched metric so far: a line of numbers per object or label set, all
// of one length, with NaN where a value was absent.
type watched struct {
	title string
	times []time.Time
	lines map[string][]float64
	last  map[string]float64 // the last value of each line
	fault error              // of the newest read
}

// add appends one read, and drops the oldest beyond keep.
func (h *watched) add(now time.Time, values []measured, err error, keep int) {
	if h.lines == nil {
		h.lines, h.last = map[string][]float64{}, map[string]float64{}
	}
	before := len(h.times)
	h.times, h.fault = append(h.times, now), err
	for about := range h.lines {
		h.lines[about] = append(h.lines[about], math.NaN())
	}
	for _, v := range values {
		h.title = v.metric
		line, ok := h.lines[v.about]
		if !ok {
			line = slices.Repeat([]float64{math.NaN()}, before+1)
			h.lines[v.about] = line
		}
		line[before], h.last[v.about] = v.number, v.number
	}
	if over := len(h.times) - keep; over > 0 {
		h.times = h.times[over:]
		for about, line := range h.lines {
			h.lines[about] = line[over:]
		}
	}
}

// draw prints plot and legend for a screen of this size. The legend takes at most half of it.
func (h *watched) draw(width, height int) string {
	names := make([]string, 0, len(h.lines))
	for about := range h.lines {
		names = append(names, about)
	}
	slices.Sort(names)
	legend := min(len(names), max(1, height/2-4))

	lines := make([][]float64, len(names))
	for i, about := range names {
		lines[i] = h.lines[about]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s", clip(metric.Visible(h.heading()), width-1), endLine)
	for _, row := range drawPlot(lines, width-1, max(3, height-legend-5)) {
		b.WriteString(row + endLine)
	}
	b.WriteString(timeAxis(h.times, width-1) + endLine)
	for i, about := range names[:legend] {
		line := lines[i]
		fmt.Fprintf(&b, "%s %s  %s%s", colored(i, "━━"), metric.Visible(about), h.value(about, line[len(line)-1]), endLine)
	}
	if rest := len(names) - legend; rest > 0 {
		fmt.Fprintf(&b, "… and %d more%s", rest, endLine)
	}
	return b.String()
}

func (h *watched) heading() string {
	s := h.title
	if n := len(h.times); n > 0 {
		s += fmt.Sprintf("  %s – %s", h.times[0].Format(time.TimeOnly), h.times[n-1].Format(time.TimeOnly))
	}
	if h.fault != nil {
		s += "  " + because(h.fault)
	}
	return s
}

// endLine clears the rest of an earlier, longer line.
const endLine = "\x1b[K\r\n"

// value prints the newest value of a line; if the server is unreachable, the last known one.
func (h *watched) value(about string, newest float64) string {
	var silent *unreachable
	switch {
	case !math.IsNaN(newest):
		return shortNumber(newest)
	case errors.As(h.fault, &silent):
		return shortNumber(h.last[about]) + " (unreachable)"
	}
	return "absent"
}

// clip shortens a line that would wrap and push the plot off the screen.
func clip(s string, width int) string {
	if runes := []rune(s); len(runes) > width && width > 0 {
		return string(runes[:width-1]) + "…"
	}
	return s
}
