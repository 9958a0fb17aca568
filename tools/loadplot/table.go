package main

import (
	"fmt"
	"slices"
	"strings"
)

// tables returns the reports as Markdown: the cost of a line at the paced rates and flat out, the
// figures with aims, and then everything.
func tables(reports []report, all entries) string {
	var b strings.Builder
	for _, r := range reports {
		b.WriteString(r.circumstances() + ".\n\n")
	}
	lines := all.ofLines()
	writeCosts(&b, "Everyday rates", lines.where(func(e entry) bool { return e.Load.Rate != flatOut }))
	writeCosts(&b, "Flat out", lines.at(flatOut))
	hasAim := func(f figure) bool { return f.Aim != nil }
	writeFigures(&b, "Aims", all, hasAim)
	writeLoads(&b, lines)
	writeFigures(&b, "Other figures", all, func(f figure) bool { return !hasAim(f) })
	return b.String()
}

// writeCosts writes a row per scenario and rate, and a column per server.
func writeCosts(b *strings.Builder, title string, lines entries) {
	if len(lines) == 0 {
		return
	}
	servers := lines.servers()
	b.WriteString("## " + title + "\n\nCPU time of the server per line taken, in nanoseconds (median of the runs).\n\n")
	b.WriteString("| scenario | lines/s | gathering floor | blocking floor |")
	for _, server := range servers {
		b.WriteString(" " + shown(server) + " |")
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, scenario := range lines.titles() {
		for _, rate := range lines.titled(scenario).rates() {
			same := lines.titled(scenario).at(rate)
			fmt.Fprintf(b, "| %s | %s | %s | %s |", scenario, rateText(rate),
				cost(same[0].Columns[gathering].Median), cost(same[0].Columns[blocking].Median))
			for _, server := range servers {
				b.WriteString(" " + same.of(server).cell() + " |")
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
}

// cell returns the cost of the first entry, Sluice's in bold, with the share of lost lines.
func (all entries) cell() string {
	if len(all) == 0 {
		return ""
	}
	text := cost(all[0].Columns[cpuPerLine].Median)
	if all[0].Server == sluice {
		text = "**" + text + "**"
	}
	if lost := all[0].lost(); lost >= 0.0005 {
		text += " (" + trimmed(significant(100*lost)) + " % lost)"
	}
	return text
}

func cost(v float64) string {
	if v < 100 {
		return number(v, 1)
	}
	return number(v, 0)
}

func rateText(rate int) string {
	if rate == flatOut {
		return "flat out"
	}
	return number(float64(rate), 0)
}

// columns are the columns of the table of lines, after scenario, rate and server.
var columns = []struct {
	title, name string
	digits      int
	factor      float64
}{
	{"ns/line", cpuPerLine, 1, 1},
	{"% of a core", busyProcessor, 1, 100},
	{"blocking floor", blocking, 1, 1},
	{"× blocking", "blocking_ratio", 2, 1},
	{"× gathering", "ratio", 2, 1},
	{"lines/s taken", takenRate, 0, 1},
	{"datagrams dropped", droppedGrams, 0, 1},
	{"`RssAnon`, MiB", "anon_rss_mib", 0, 1},
	{"resident, MiB", resident, 0, 1},
	{"idle, MiB", residentIdle, 0, 1},
}

// writeLoads writes every column of every load.
func writeLoads(b *strings.Builder, lines entries) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("## Lines\n\nMedian (minimum to maximum).\n\n| scenario | lines/s | server |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, e := range lines {
		fmt.Fprintf(b, "| %s | %s | %s |", e.title(), rateText(e.Load.Rate), shown(e.Server))
		for _, c := range columns {
			b.WriteString(" " + e.Columns[c.name].times(c.factor).text(c.digits) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// writeFigures writes a row per figure for which is holds.
func writeFigures(b *strings.Builder, title string, all entries, is func(figure) bool) {
	if !slices.ContainsFunc(all, func(e entry) bool { return slices.ContainsFunc(e.Figures, is) }) {
		return
	}
	b.WriteString("## " + title + "\n\n| scenario | figure | median (minimum to maximum) | aim | |\n|---|---|---|---|---|\n")
	for _, e := range all {
		for _, f := range e.Figures {
			if is(f) {
				measured := strings.TrimSpace(f.text(f.digits()) + " " + f.Unit)
				fmt.Fprintf(b, "| %s | %s | %s | %s |\n", e.atRate(), f.Name, measured, f.judged())
			}
		}
	}
	b.WriteString("\n")
}

// atRate returns the title, with the rate of a load of lines.
func (e entry) atRate() string {
	switch {
	case e.Load == nil:
		return e.title()
	case e.Load.Rate == flatOut:
		return e.title() + ", flat out"
	}
	return e.title() + ", " + rateText(e.Load.Rate) + "/s"
}

func (s spread) times(factor float64) spread {
	return spread{s.Median * factor, s.Min * factor, s.Max * factor}
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
