package loadtest

import "time"

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
