package loadtest

import "time"

// Report is what was measured, scenario by scenario. Every run in it added up.
type Report struct {
	// Version is that of the load test, and of the server but for a target.
	Version   string    `json:"version"`
	Machine   Machine   `json:"machine"`
	Scenarios []*Result `json:"scenarios"`
}

// Result is what was measured in one scenario: what a line costs, or figures of its own.
type Result struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	// Short: less was done than a good figure needs.
	Short bool `json:"short,omitempty"`
	// Load is nil in a scenario that does not send lines.
	Load *Load `json:"load,omitempty"`
	Runs []Run `json:"runs,omitempty"` // of a load
	// Figures are of a scenario that measures figures of its own; of a load, those that its table has no
	// column for.
	Figures []Measured `json:"figures,omitempty"`
	// Notes say what has to be known of the figures, as that something was not checked.
	Notes []string `json:"notes,omitempty"`
}

// Load is what was sent in each run.
type Load struct {
	Series           int    `json:"series"`
	LinesPerRun      int64  `json:"lines_per_run,omitempty"`      // 0: a search
	LinesPerDatagram int    `json:"lines_per_datagram,omitempty"` // 0: the client packs them
	Sender           string `json:"sender"`
	// Target is the command line of a server that is not ours; empty: it is.
	Target string `json:"target,omitempty"`
	// RatePerSecond is the pace that was asked for, in lines; 0: as fast as it goes.
	RatePerSecond int `json:"rate_lines_per_second"`
	// SearchStep is for how long a search offers each rate, SearchSteps how many times at most it offered one, of a
	// server or of the floor; 0: no search.
	SearchStep  time.Duration `json:"search_step_ns,omitempty"`
	SearchSteps int           `json:"search_steps,omitempty"`
}

// Machine is where it was measured. Absolute figures differ from one to the other.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// LoadAverage is that of the minute before: who else works here disturbs the measurement.
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
	// GCShare is the part of what the server's process did, over its whole life, that was collecting garbage.
	GCShare float64 `json:"server_gc_share"`
}

// Ratio is how many times the floor the server cost.
func (r Run) Ratio() float64 { return r.Server.CPUPerLine() / r.Floor.CPUPerLine() }

// BlockingRatio is how many times the blocking floor the server cost.
func (r Run) BlockingRatio() float64 { return r.Server.CPUPerLine() / r.Blocking.CPUPerLine() }

// Taken is what became of a load. The warm-up is not in it.
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

// OfferedPerSecond is in lines.
func (t Taken) OfferedPerSecond() float64 { return float64(t.Sent) / t.Sending.Seconds() }

// TakenPerSecond is in lines.
func (t Taken) TakenPerSecond() float64 { return float64(t.Taken) / t.Taking.Seconds() }

// UserPerLine is in nanoseconds a line taken.
func (t Taken) UserPerLine() float64 { return float64(t.User) / float64(t.Taken) }

// SystemPerLine is in nanoseconds a line taken.
func (t Taken) SystemPerLine() float64 { return float64(t.System) / float64(t.Taken) }

// CPUPerLine is in nanoseconds a line taken.
func (t Taken) CPUPerLine() float64 { return t.UserPerLine() + t.SystemPerLine() }

// Busy is the share of a processor that was used: far below 1 where the sender was the limit.
func (t Taken) Busy() float64 { return float64(t.User+t.System) / float64(t.Taking) }

// Memory is a process's memory.
type Memory struct {
	PeakBytes int64 `json:"peak_bytes"` // VmHWM: the most that was ever resident
	AnonBytes int64 `json:"anon_bytes"` // RssAnon: its own
	FileBytes int64 `json:"file_bytes"` // RssFile: the database's mapped files, the binary
}

// Spread is the middle and the ends of a figure over all runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Over makes a Spread of one figure of every run.
func (r *Result) Over(figure func(Run) float64) Spread {
	all := make([]float64, len(r.Runs))
	for i, run := range r.Runs {
		all[i] = figure(run)
	}
	return spread(all)
}
