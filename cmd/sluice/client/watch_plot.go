package client

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	names := slices.Sorted(maps.Keys(h.lines))
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
const (
	clearLine = "\x1b[K"
	endLine   = clearLine + "\r\n"
)

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

// A braille character is a grid of 2 × 4 dots; dotBits says which bit of it each dot is (Unicode
// block U+2800, where the dots of the first column are numbered 1, 2, 3, 7).
var dotBits = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

const brailleBase = 0x2800

// axisWidth is room for the numbers left of the plot.
const axisWidth = 11

// canvas is a picture of braille characters, each with the color of the line that drew there last.
type canvas struct {
	columns, rows int
	dots          []rune
	owner         []int
}

func newCanvas(columns, rows int) *canvas {
	return &canvas{columns: columns, rows: rows, dots: make([]rune, columns*rows), owner: make([]int, columns*rows)}
}

// dot sets one dot; (0,0) is at the top left.
func (c *canvas) dot(x, y, owner int) {
	if x < 0 || y < 0 || x >= 2*c.columns || y >= 4*c.rows {
		return
	}
	cell := y/4*c.columns + x/2
	c.dots[cell] |= dotBits[y%4][x%2]
	c.owner[cell] = owner
}

// stroke joins two dots.
func (c *canvas) stroke(x0, y0, x1, y1, owner int) {
	steps := max(abs(x1-x0), abs(y1-y0), 1)
	for i := 0; i <= steps; i++ {
		c.dot(x0+(x1-x0)*i/steps, y0+(y1-y0)*i/steps, owner)
	}
}

func (c *canvas) row(y int) string {
	var b strings.Builder
	for x := range c.columns {
		cell := y*c.columns + x
		if c.dots[cell] == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteString(colored(c.owner[cell], string(brailleBase+c.dots[cell])))
	}
	return b.String()
}

// shortNumber prints a number that fits before the plot; the legend has the same.
func shortNumber(v float64) string {
	if s := plainNumber(v); len(s) < axisWidth {
		return s
	}
	return fmt.Sprintf("%.4g", v)
}

// drawPlot draws lines of equal length over one scale as rows of text at most width wide: from the
// left edge until the width is used up, then with the newest value at the right edge. NaN leaves a
// gap.
func drawPlot(lines [][]float64, width, rows int) []string {
	columns := max(width-axisWidth, 8)
	picture := newCanvas(columns, rows)
	low, high := span(lines)
	for owner, line := range lines {
		picture.line(line, low, high, owner)
	}
	labels := ticks(low, high, rows)
	out := make([]string, rows)
	for y := range rows {
		mark := "│"
		if labels[y] != "" {
			mark = "┤"
		}
		out[y] = fmt.Sprintf("%*s%s", axisWidth-1, labels[y], mark) + picture.row(y)
	}
	return out
}

// rowsPerTick is the least distance between two labelled rows.
const rowsPerTick = 3

// ticks are the labels of the rows of a scale: its ends, and round numbers between.
func ticks(low, high float64, rows int) []string {
	labels := make([]string, rows)
	labels[rows-1], labels[0] = shortNumber(low), shortNumber(high)
	step := roundStep((high - low) * rowsPerTick / float64(rows))
	if step == 0 || math.IsInf(step, 0) {
		return labels
	}
	last := rows - 1
	for v := math.Ceil(low/step) * step; v < high; v += step {
		y := int(math.Round((high - v) / (high - low) * float64(rows-1)))
		if last-y >= rowsPerTick && y >= rowsPerTick {
			labels[y], last = shortNumber(v), y
		}
	}
	return labels
}

// roundStep is the next of 1, 2 and 5 times a power of ten.
func roundStep(atLeast float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(atLeast)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= atLeast {
			return factor * power
		}
	}
	return 10 * power
}

// columnsPerTick is the distance between two times below a plot.
const columnsPerTick = 20

// timeAxis is the row below a plot of this width: the times of some columns.
func timeAxis(times []time.Time, width int) string {
	columns := max(width-axisWidth, 8)
	times = times[max(len(times)-2*columns, 0):]
	axis := strings.Repeat(" ", axisWidth-1) + "└"
	for column := 0; column < columns && 2*column < len(times); column += columnsPerTick {
		label := times[2*column].Format(time.TimeOnly)
		if column+len(label) > columns {
			break
		}
		axis += strings.Repeat(" ", axisWidth+column-utf8.RuneCountInString(axis)) + label
	}
	return axis
}

func (c *canvas) line(line []float64, low, high float64, owner int) {
	width := 2 * c.columns
	if len(line) > width {
		line = line[len(line)-width:]
	}
	height := float64(4*c.rows - 1)
	lastX, lastY := -1, -1
	for i, v := range line {
		if math.IsNaN(v) {
			lastX = -1
			continue
		}
		x, y := i, int(math.Round((high-v)/(high-low)*height))
		if lastX < 0 {
			lastX, lastY = x, y
		}
		c.stroke(lastX, lastY, x, y, owner)
		lastX, lastY = x, y
	}
}

// span is the scale: it holds every number and is never empty. Numbers that are all on one side of
// 0 get a scale that begins there.
func span(lines [][]float64) (low, high float64) {
	for _, line := range lines {
		for _, v := range line {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low == high {
		high = low + 1
	}
	return low, high
}

// colored prints s in the color of the nth line.
func colored(n int, s string) string {
	if os.Getenv("NO_COLOR") != "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", 31+(n+1)%6, s)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
