package client

import (
	"errors"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

func plain(s string) string { return escapes.ReplaceAllString(s, "") }

// A line that rises from corner to corner of 4 × 2 characters, dot by dot (8 × 8).
func TestPlotDrawsDots(t *testing.T) {
	rows := drawPlot([][]float64{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}, axisWidth+8, 4)
	want := []string{
		"        15┤      ⡠⠊",
		"          │    ⡠⠊  ",
		"          │  ⡠⠊    ",
		"         0┤⡠⠊      ",
	}
	for i, row := range rows {
		if got := plain(row); got != want[i] {
			t.Errorf("row %d is %q, want %q", i, got, want[i])
		}
	}
}

// The rows of round numbers are labelled, and so are the times of some columns.
func TestPlotHasTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		rows      int
		want      string
	}{
		{0, 15, 16, "15 - - - - 10 - - - - 5 - - - - 0"},
		{0, 1, 12, "1 - - - - - 0.5 - - - - 0"},
		{-3, 7e9, 8, "7000000000 - - - - - - -3"},
		{0, 1, 3, "1 - 0"},
		{0, math.MaxFloat64, 9, "1.798e+308 - - - - - - - 0"},
	} {
		labels := ticks(c.low, c.high, c.rows)
		for i := range labels {
			if labels[i] == "" {
				labels[i] = "-"
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%g to %g on %d rows: %s, want %s", c.low, c.high, c.rows, got, c.want)
		}
	}
	var times []time.Time
	for i := range 100 {
		times = append(times, time.Date(2026, 5, 1, 12, 0, i, 0, time.UTC))
	}
	if got, want := timeAxis(times, axisWidth+40), "          └12:00:20            12:01:00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := timeAxis(times[:3], 10), "          └12:00:00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPlotLeavesGapsAndFits(t *testing.T) {
	nan := math.NaN()
	rows := drawPlot([][]float64{{5, nan, nan, nan, nan, nan, nan, nan, nan, nan, 5}, {nan, nan, 1e12, -3, nan, nan, nan, nan, nan, nan, nan}}, 30, 3)
	for _, row := range rows {
		if n := len([]rune(plain(row))); n > 30 {
			t.Errorf("a row is %d characters wide, want at most 30", n)
		}
	}
	if rows := drawPlot([][]float64{{nan}, {}}, 10, 3); len(rows) != 3 {
		t.Errorf("%d rows of nothing, want 3", len(rows))
	}
}

func TestHistoryKeepsLinesApart(t *testing.T) {
	var h watched
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	h.add(now, []measured{{about: "pod/a", metric: "rps", number: 1}}, nil, 3)
	h.add(now, []measured{{about: "pod/b", metric: "rps", number: 2}}, nil, 3)
	if a, b := h.lines["pod/a"], h.lines["pod/b"]; a[0] != 1 || !math.IsNaN(a[1]) || !math.IsNaN(b[0]) || b[1] != 2 {
		t.Errorf("a %v, b %v: want 1, absent and absent, 2", a, b)
	}
	for range 5 {
		h.add(now, nil, errors.New("connection refused"), 3)
	}
	if n := len(h.lines["pod/a"]); n != 3 || len(h.times) != 3 {
		t.Errorf("%d values and %d times kept, want 3", n, len(h.times))
	}
	screen := plain(h.draw(60, 12))
	for _, want := range []string{"rps", "connection refused", "pod/a", "absent"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen has no %q:\n%s", want, screen)
		}
	}
	if lines := strings.Count(screen, "\n"); lines > 12 {
		t.Errorf("%d lines on a screen of 12", lines)
	}
}

// A plot grows from the left edge.
func TestPlotBeginsAtTheLeft(t *testing.T) {
	row := plain(drawPlot([][]float64{{1, 1}}, axisWidth+8, 1)[0])
	if rest := []rune(row)[axisWidth:]; rest[0] == ' ' || rest[7] != ' ' {
		t.Errorf("row %q: want it drawn at its left edge", row)
	}
}

// A server that cannot be reached says nothing of the metric: what it read last stays.
func TestUnreachableIsNotAbsent(t *testing.T) {
	var h watched
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	h.add(now, []measured{{about: "pod/a", metric: "rps", number: 1234567}}, nil, 3)
	h.add(now, nil, &unreachable{"nobody listens", nil}, 3)
	if screen := plain(h.draw(60, 12)); !strings.Contains(screen, "pod/a  1234567 (unreachable)") || !strings.Contains(screen, "   1234567┤") {
		t.Errorf("want the last value, in the same format on the axis:\n%s", screen)
	}
	h.add(now, nil, &refusal{code: http.StatusNotFound, message: "gone"}, 3)
	if screen := plain(h.draw(60, 12)); !strings.Contains(screen, "pod/a  absent") {
		t.Errorf("want it absent:\n%s", screen)
	}
}

// A terminal may say that it has no columns. One of any other size is drawn on.
func TestPlotNeedsNoSize(t *testing.T) {
	for _, c := range []struct {
		width, height         int
		err                   error
		wantWidth, wantHeight int
	}{
		{100, 30, nil, 100, 30}, {0, 0, nil, 80, 24}, {0, 30, nil, 80, 30}, {100, 0, nil, 100, 24},
		{1, 1, nil, 1, 1}, {100, 30, errors.New("no terminal"), 80, 24},
	} {
		width, height := command.TerminalSize(c.width, c.height, c.err)
		if width != c.wantWidth || height != c.wantHeight {
			t.Errorf("%d × %d (%v) is drawn as %d × %d, want %d × %d", c.width, c.height, c.err, width, height, c.wantWidth, c.wantHeight)
		}
		var h watched
		for range 3 {
			h.add(time.Now(), []measured{{about: "pod/a", metric: "rps", number: 1}}, nil, 4*width)
			h.draw(width, height)
		}
	}
}
