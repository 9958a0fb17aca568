package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// columns are the columns of the table of lines, after scenario and server.
var columns = []struct {
	title, name string
	digits      int
}{
	{"ns/line", "cpu_ns_per_line", 1},
	{"blocking floor", "blocking_floor_ns_per_line", 1},
	{"× blocking", "blocking_ratio", 2},
	{"× gathering", "ratio", 2},
	{"lines/s taken", "taken_lines_per_second", 0},
	{"datagrams dropped", "dropped_datagrams", 0},
	{"`RssAnon`, MiB", "anon_rss_mib", 0},
}

// writeTable writes the reports as Markdown: loads of lines first, then all other figures.
func writeTable(reports []report, path string) error {
	var b strings.Builder
	for _, r := range reports {
		fmt.Fprintf(&b, "%s: %s\n\n", r.server(), r.circumstances())
	}
	writeLoads(&b, reports)
	writeFigures(&b, reports)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func writeLoads(b *strings.Builder, reports []report) {
	if len(loads(reports)) == 0 {
		return
	}
	b.WriteString("| scenario | server |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, r := range reports {
		for _, s := range r.Scenarios {
			if len(s.Columns) > 0 {
				s.writeLoad(b, r.server())
			}
		}
	}
	b.WriteString("\n")
}

func (s scenario) writeLoad(b *strings.Builder, server string) {
	pace := ""
	if s.Load.Rate > 0 {
		pace = ", " + number(float64(s.Load.Rate), 0) + "/s"
	}
	fmt.Fprintf(b, "| %s%s | %s |", s.title(), pace, server)
	for _, c := range columns {
		b.WriteString(" " + s.Columns[c.name].text(c.digits) + " |")
	}
	b.WriteString("\n")
}

func writeFigures(b *strings.Builder, reports []report) {
	head := "| scenario | server | figure | median (minimum to maximum) | aim | |\n|---|---|---|---|---|---|\n"
	for _, r := range reports {
		for _, s := range r.Scenarios {
			for _, f := range s.Figures {
				b.WriteString(head)
				head = ""
				fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", s.title(), r.server(), f.Name, strings.TrimSpace(f.text(f.digits())+" "+f.Unit), f.judged())
			}
		}
	}
}

// text formats the median, followed by the minimum and the maximum if they differ.
func (s spread) text(digits int) string {
	if s.Min == s.Max {
		return number(s.Median, digits)
	}
	return number(s.Median, digits) + " (" + number(s.Min, digits) + " to " + number(s.Max, digits) + ")"
}

// digits returns the number of meaningful decimal places.
func (f figure) digits() int {
	switch {
	case f.Median >= 100:
		return 0
	case f.Median >= 10:
		return 1
	case f.Median >= 0.1:
		return 2
	}
	return 3
}

// judged returns two cells: the aim, and "met" or "missed".
func (f figure) judged() string {
	if f.Aim == nil {
		return "|"
	}
	aim, met := "≥ "+number(f.Aim.Least, -1), f.Median >= f.Aim.Least
	if f.Aim.Most != 0 {
		aim, met = "≤ "+number(f.Aim.Most, -1), f.Median <= f.Aim.Most
	}
	if met {
		return aim + " | met"
	}
	return aim + " | missed"
}

// number formats a value with separated thousands. If digits is negative, it prints as many decimal
// places as the value needs.
func number(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}
