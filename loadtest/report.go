package loadtest

import "time"

// Report is the result of all scenarios. Every run in it is fully accounted for.
type Report struct {
	// Version is that of the server, or of the load test with a target.
	Version   string    `json:"version"`
	Machine   Machine   `json:"machine"`
	Scenarios []*Result `json:"scenarios"`
}

// Result is the result of one scenario: the cost of a line, or other figures.
type Result struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	// Short marks a run of a small size.
	Short bool `json:"short,omitempty"`
	// Load is nil in a scenario that does not send lines.
	Load *Load `json:"load,omitempty"`
	Runs []Run `json:"runs,omitempty"` // of a load
	// Figures are of a scenario that measures figures of its own; of a load, those that its table
	// has no column for.
	Figures []Measured `json:"figures,omitempty"`
	// Notes are remarks on the figures, such as a check that was not done.
	Notes []string `json:"notes,omitempty"`
}

// Load is the load of each run.
type Load struct {
	Series           int    `json:"series"`
	LinesPerRun      int64  `json:"lines_per_run,omitempty"`      // 0: a search
	LinesPerDatagram int    `json:"lines_per_datagram,omitempty"` // 0: the client packs them
	Sender           string `json:"sender"`
	// Target is the command line of a server that is not ours; empty: it is.
	Target string `json:"target,omitempty"`
	// RatePerSecond is the pace that was asked for, in lines; 0: as fast as it goes.
	RatePerSecond int `json:"rate_lines_per_second"`
	// SearchStep is for how long a search offers each rate, SearchSteps how many times at most it
	// offered one, of a server or of the floor; 0: no search.
	SearchStep  time.Duration `json:"search_step_ns,omitempty"`
	SearchSteps int           `json:"search_steps,omitempty"`
}

// Machine is the machine of the measurement. Absolute figures differ between machines.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// LoadAverage is that of the minute before: other work disturbs the measurement.
	LoadAverage float64 `json:"load_average"`
	// Pinned: the server had one processor to itself, and the sender another.
	Pinned bool `json:"pinned"`
	// SocketBufferBytes is what the kernel granted the floor; 0: none was measured.
	SocketBufferBytes int `json:"socket_buffer_bytes"`
}

// Run is one run: the server, then the floors under the same load.
type Run struct {
	Server Taken `json:"server"`
	// Floor is the gathering one.
	Floor    Taken `json:"floor"`
	Blocking Taken `json:"blocking_floor"`
	// Memory is after the load, Idle before the first line.
	Memory Memory `json:"server_memory"`
	Idle   Memory `json:"server_memory_idle"`
	// GCShare is the part of what the server's process did, over its whole life, that was
	// collecting garbage.
	GCShare float64 `json:"server_gc_share"`
}

// Ratio is the server's cost in gathering floors.
func (r Run) Ratio() float64 { return r.Server.CPUPerLine() / r.Floor.CPUPerLine() }

// BlockingRatio is the server's cost in blocking floors.
func (r Run) BlockingRatio() float64 { return r.Server.CPUPerLine() / r.Blocking.CPUPerLine() }

// Taken is the result of a load, without the warm-up.
type Taken struct {
	Sent             int64 `json:"sent_lines"`
	Taken            int64 `json:"taken_lines"`
	DroppedDatagrams int64 `json:"dropped_datagrams"`
	// Sending is how long the sender took, Taking until the queue was empty.
	Sending time.Duration `json:"sending_ns"`
	Taking  time.Duration `json:"taking_ns"`
	// User and System are the process's CPU time, from before the first line until 0.8 s after the
	// last, so that what the last lines leave to the roller and to persistence is in it.
	User   time.Duration `json:"cpu_user_ns"`
	System time.Duration `json:"cpu_system_ns"`
}

// OfferedPerSecond is in lines per second.
func (t Taken) OfferedPerSecond() float64 { return float64(t.Sent) / t.Sending.Seconds() }

// TakenPerSecond is in lines per second.
func (t Taken) TakenPerSecond() float64 { return float64(t.Taken) / t.Taking.Seconds() }

// UserPerLine is in nanoseconds per line taken.
func (t Taken) UserPerLine() float64 { return float64(t.User) / float64(t.Taken) }

// SystemPerLine is in nanoseconds per line taken.
func (t Taken) SystemPerLine() float64 { return float64(t.System) / float64(t.Taken) }

// CPUPerLine is in nanoseconds per line taken.
func (t Taken) CPUPerLine() float64 { return t.UserPerLine() + t.SystemPerLine() }

// Busy is the used share of a processor: far below 1 if the sender was the limit.
func (t Taken) Busy() float64 { return float64(t.User+t.System) / float64(t.Taking) }

// Memory is the memory of a process and its descendants.
type Memory struct {
	PeakBytes int64 `json:"peak_bytes"` // VmHWM: the most that was ever resident
	AnonBytes int64 `json:"anon_bytes"` // RssAnon: its own
	FileBytes int64 `json:"file_bytes"` // RssFile: the database's mapped files, the binary
}

// Spread is the median, the minimum and the maximum over all runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Over is the Spread of one figure.
func (r *Result) Over(figure func(Run) float64) Spread {
	all := make([]float64, len(r.Runs))
	for i, run := range r.Runs {
		all[i] = figure(run)
	}
	return spread(all)
}
