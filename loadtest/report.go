package loadtest

import (
	"fmt"
	"slices"
	"time"
)

// Report is the result of all scenarios. Every line of every run is accounted for, except in runs
// of peers.
type Report struct {
	// Version is the version of the Sluice server.
	Version   string    `json:"version"`
	Machine   Machine   `json:"machine"`
	Scenarios []*Result `json:"scenarios"`
}

// Result is the result of one server in one scenario at one rate: the cost of a line, or other
// figures.
type Result struct {
	Scenario string `json:"scenario"`
	// Server is "sluice", or the name of a peer.
	Server string `json:"server"`
	About  string `json:"about"`
	// Short marks a run of a small size.
	Short bool `json:"short,omitempty"`
	// Load describes the load of lines; nil in a scenario without such a load.
	Load *Load `json:"load,omitempty"`
	Runs []Run `json:"runs,omitempty"` // of a load of lines
	// Figures are the figures of the scenario; for a load of lines, those without a column in the
	// table.
	Figures []Measured `json:"figures,omitempty"`
	// Notes are remarks on the figures, such as a check that was not done.
	Notes []string `json:"notes,omitempty"`
}

// Load is the load of each run.
type Load struct {
	Series           int    `json:"series"`
	LinesPerRun      int64  `json:"lines_per_run"`
	LinesPerDatagram int    `json:"lines_per_datagram,omitempty"` // 0: the client packs them
	Sender           string `json:"sender"`
	// Command is the command line of a peer; empty: the server is Sluice.
	Command []string `json:"command,omitempty"`
	// RatePerSecond is the requested rate in lines per second; 0: flat out.
	RatePerSecond int `json:"rate_lines_per_second"`
}

// Machine is the machine of the measurement. Absolute figures differ between machines.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// LoadAverage is the machine's load average of the minute before: other work disturbs the
	// measurement.
	LoadAverage float64 `json:"load_average"`
	// Pinned reports whether the server was bound to one processor, and the sender to another.
	Pinned bool `json:"pinned"`
	// SocketBufferBytes is the size of the socket buffer that the kernel granted the floor; 0: no
	// floor was measured.
	SocketBufferBytes int `json:"socket_buffer_bytes"`
}

// Run is one run: the server, and the floors under the same load. Servers that were measured in
// turn have the same floors.
type Run struct {
	Server Taken `json:"server"`
	// Floor is the gathering floor.
	Floor    Taken `json:"floor"`
	Blocking Taken `json:"blocking_floor"`
	// Memory is the server's memory after the load, Idle the memory before the first line.
	Memory Memory `json:"server_memory"`
	Idle   Memory `json:"server_memory_idle"`
	// GCShare is the share of garbage collection in the CPU time of the server's process since the
	// start.
	GCShare float64 `json:"server_gc_share"`
}

// Ratio returns the server's cost of a line, divided by that of the gathering floor.
func (r Run) Ratio() float64 { return r.Server.CPUPerLine() / r.Floor.CPUPerLine() }

// BlockingRatio returns the server's cost of a line, divided by that of the blocking floor.
func (r Run) BlockingRatio() float64 { return r.Server.CPUPerLine() / r.Blocking.CPUPerLine() }

// Taken is the result of a load of lines, without the warm-up.
type Taken struct {
	Sent             int64 `json:"sent_lines"`
	Taken            int64 `json:"taken_lines"`
	DroppedDatagrams int64 `json:"dropped_datagrams"`
	// Sending is the time until the last line was sent, Taking the time until the queue was empty.
	Sending time.Duration `json:"sending_ns"`
	Taking  time.Duration `json:"taking_ns"`
	// User and System are the process's CPU time, from before the first line until 0.8 s after the
	// last. So they include the work of the roller and of persistence on the last lines.
	User   time.Duration `json:"cpu_user_ns"`
	System time.Duration `json:"cpu_system_ns"`
}

// OfferedPerSecond returns the rate of sending, in lines per second.
func (t Taken) OfferedPerSecond() float64 { return float64(t.Sent) / t.Sending.Seconds() }

// TakenPerSecond returns the rate of taking, in lines per second.
func (t Taken) TakenPerSecond() float64 { return float64(t.Taken) / t.Taking.Seconds() }

// UserPerLine returns the user time in nanoseconds per line taken.
func (t Taken) UserPerLine() float64 { return float64(t.User) / float64(t.Taken) }

// SystemPerLine returns the system time in nanoseconds per line taken.
func (t Taken) SystemPerLine() float64 { return float64(t.System) / float64(t.Taken) }

// CPUPerLine returns the CPU time in nanoseconds per line taken.
func (t Taken) CPUPerLine() float64 { return t.UserPerLine() + t.SystemPerLine() }

// Busy returns the used share of a processor: far below 1 if the sender was the limit.
func (t Taken) Busy() float64 { return float64(t.User+t.System) / float64(t.Taking) }

// Memory is the memory of a process and all descendants.
type Memory struct {
	PeakBytes int64 `json:"peak_bytes"` // VmHWM: the peak of resident memory
	AnonBytes int64 `json:"anon_bytes"` // RssAnon: anonymous memory
	FileBytes int64 `json:"file_bytes"` // RssFile: mapped files of the database, and the binary
}

// ResidentBytes returns the resident memory.
func (m Memory) ResidentBytes() int64 { return m.AnonBytes + m.FileBytes }

// Spread is the median, the minimum and the maximum over all runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Over returns the Spread of one figure.
func (r *Result) Over(figure func(Run) float64) Spread {
	all := make([]float64, len(r.Runs))
	for i, run := range r.Runs {
		all[i] = figure(run)
	}
	return spread(all)
}

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
