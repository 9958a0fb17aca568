package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figures are the table's columns.
var figures = []struct {
	Name   string // also in JSON
	Title  string
	Format string // for a float64; empty: a whole number with separated thousands
	Of     func(Run) float64
}{
	{"seconds", "seconds", "%.2f", func(r Run) float64 { return r.Server.Taking.Seconds() }},
	{"offered_lines_per_second", "offered/s", "", func(r Run) float64 { return r.Server.OfferedPerSecond() }},
	{"taken_lines_per_second", "taken/s", "", func(r Run) float64 { return r.Server.TakenPerSecond() }},
	{"dropped_datagrams", "drops", "", func(r Run) float64 { return float64(r.Server.DroppedDatagrams) }},
	{"busy", "busy", "%.2f", func(r Run) float64 { return r.Server.Busy() }},
	{"cpu_ns_per_line", "ns/line", "%.1f", func(r Run) float64 { return r.Server.CPUPerLine() }},
	{"cpu_user_ns_per_line", "user", "%.1f", func(r Run) float64 { return r.Server.UserPerLine() }},
	{"cpu_system_ns_per_line", "system", "%.1f", func(r Run) float64 { return r.Server.SystemPerLine() }},
	{"floor_ns_per_line", "floor", "%.1f", func(r Run) float64 { return r.Floor.CPUPerLine() }},
	{"floor_dropped_datagrams", "its drops", "", func(r Run) float64 { return float64(r.Floor.DroppedDatagrams) }},
	{"ratio", "ratio", "%.2f", Run.Ratio},
	{"blocking_floor_ns_per_line", "blocking", "%.1f", func(r Run) float64 { return r.Blocking.CPUPerLine() }},
	{"blocking_ratio", "ratio", "%.2f", Run.BlockingRatio},
	{"peak_rss_mib", "peak MiB", "%.0f", func(r Run) float64 { return mebibytes(r.Memory.PeakBytes) }},
	{"anon_rss_mib", "anon MiB", "%.0f", func(r Run) float64 { return mebibytes(r.Memory.AnonBytes) }},
	{"resident_mib", "RSS MiB", "%.0f", func(r Run) float64 { return mebibytes(r.Memory.ResidentBytes()) }},
	{"idle_resident_mib", "idle MiB", "%.0f", func(r Run) float64 { return mebibytes(r.Idle.ResidentBytes()) }},
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// WriteTable writes a table per scenario.
func (r *Report) WriteTable(out io.Writer) error {
	var b strings.Builder
	pinned := "not pinned"
	if r.Machine.Pinned {
		pinned = "server and sender pinned to a processor each"
	}
	buffer := ""
	if r.Machine.SocketBufferBytes > 0 {
		buffer = fmt.Sprintf(", socket buffer %d KiB", r.Machine.SocketBufferBytes>>10)
	}
	if r.Version != "" {
		b.WriteString(r.Version + "\n")
	}
	fmt.Fprintf(&b, "%d processors (%s), Linux %s, %s%s, load average before %.2f\n",
		r.Machine.CPUs, pinned, r.Machine.Kernel, r.Machine.Go, buffer, r.Machine.LoadAverage)
	for _, s := range r.Scenarios {
		b.WriteString("\n")
		s.writeHead(&b)
		if len(s.Runs) > 0 {
			s.writeRuns(&b)
		}
		s.writeFigures(&b)
		for _, note := range s.Notes {
			b.WriteString(note + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Result) writeHead(b *strings.Builder) {
	name := r.Scenario
	if r.Load != nil && r.Server != sluiceName {
		name += ", " + r.Server
	}
	if r.Short {
		name += " (short)"
	}
	if r.Load == nil {
		fmt.Fprintf(b, "%s: %s\n", name, r.About)
		return
	}
	packing := "packed by the client"
	if r.Load.LinesPerDatagram > 0 {
		packing = fmt.Sprintf("%d per datagram", r.Load.LinesPerDatagram)
	}
	fmt.Fprintf(b, "%s: %s, %s series, %s, %s, by %s\n", name, r.About,
		grouped(float64(r.Load.Series)), packing, r.Load.amount(), r.Load.Sender)
	if len(r.Runs) == 0 {
		return
	}
	accounted := "Every line is accounted for."
	if len(r.Load.Command) > 0 {
		accounted = "The server is " + strings.Join(r.Load.Command, " ") + "; the accounting was not checked."
	}
	b.WriteString(accounted + "\nns/line is the server's CPU time per line taken; floor is that of a receiver that only counts lines and\n" +
		"reads them in batches; blocking is that of one that is woken for each datagram.\n\n")
}

// amount describes the size and the rate of the load.
func (l *Load) amount() string {
	return grouped(float64(l.LinesPerRun)) + " lines per run, " + rateText(l.RatePerSecond)
}

// writeRuns writes a row per run, and the spread of several.
func (r *Result) writeRuns(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	cells := []string{"run"}
	for _, f := range figures {
		cells = append(cells, f.Title)
	}
	row(w, cells)
	for i, run := range r.Runs {
		cells := []string{strconv.Itoa(i + 1)}
		for _, f := range figures {
			cells = append(cells, formatted(f.Format, f.Of(run)))
		}
		row(w, cells)
	}
	if len(r.Runs) > 1 {
		r.writeSpread(w)
	}
	_ = w.Flush()
}

// writeFigures writes a row per figure.
func (r *Result) writeFigures(b *strings.Builder) {
	if len(r.Figures) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmedian\tmin\tmax\tunit\taim\t")
	for _, f := range r.Figures {
		aim := ""
		if f.Aim != nil {
			aim = f.Aim.String() + " missed"
			if f.Aim.Met(f.Median) {
				aim = f.Aim.String() + " met"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t\n", f.Name, formatFigure(f.Median), formatFigure(f.Min),
			formatFigure(f.Max), f.Unit, aim)
	}
	_ = w.Flush()
}

func (r *Result) writeSpread(w io.Writer) {
	for _, end := range []struct {
		title string
		of    func(Spread) float64
	}{
		{"median", func(s Spread) float64 { return s.Median }},
		{"min", func(s Spread) float64 { return s.Min }},
		{"max", func(s Spread) float64 { return s.Max }},
	} {
		cells := []string{end.title}
		for _, f := range figures {
			cells = append(cells, formatted(f.Format, end.of(r.Over(f.Of))))
		}
		row(w, cells)
	}
}

// row writes cells that the tabwriter aligns to the right: each cell must end in a tab.
func row(w io.Writer, cells []string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }

func formatted(format string, v float64) string {
	if format == "" {
		return grouped(v)
	}
	return fmt.Sprintf(format, v)
}

// grouped formats a whole number with separated thousands.
func grouped(v float64) string {
	digits := strconv.FormatInt(int64(v), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// WriteJSON writes the report, with every figure over all runs.
func (r *Report) WriteJSON(out io.Writer) error {
	type result struct {
		*Result
		Columns map[string]Spread `json:"columns,omitempty"`
	}
	results := []result{}
	for _, s := range r.Scenarios {
		results = append(results, result{s, s.columns()})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Version   string   `json:"version"`
		Machine   Machine  `json:"machine"`
		Scenarios []result `json:"scenarios"`
	}{r.Version, r.Machine, results})
}

// columns returns the columns of a load's table, over all runs.
func (r *Result) columns() map[string]Spread {
	if len(r.Runs) == 0 {
		return nil
	}
	spreads := map[string]Spread{}
	for _, f := range figures {
		spreads[f.Name] = r.Over(f.Of)
	}
	return spreads
}
