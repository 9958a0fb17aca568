package loadtest

import (
	"fmt"
	"slices"
)

// measurement performs all runs of one server in one scenario at one rate.
type measurement struct {
	Config
	scenario   Scenario
	rate       int   // of the load, in lines per second; without a load of lines 0: set by the scenario
	peer       *Peer // the server; nil: Sluice
	lines      int64 // of one run; 0 in a scenario without a load of lines
	processors processors
	machine    *Machine
	result     *Result
	prepared   func() *floodLoad // shared by all servers
	departures []string          // from the standard run, as flags
	title      string            // of the run
	lastStep   string
}

// processors are the processors that the server and the sender are pinned to.
type processors struct{ server, sender int }

// anyCPU leaves a process to the scheduler.
const anyCPU = -1

func (p processors) pinned() bool { return p.server != anyCPU }

// step reports the next step of the run.
func (m *measurement) step(what string) {
	if m.Progress == nil || what == m.lastStep {
		return
	}
	m.lastStep = what
	fmt.Fprintf(m.Progress, "%s: %s\n", m.title, what)
}

// note adds a remark on the figures, once for all runs.
func (m *measurement) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.result.Notes, text) {
		m.result.Notes = append(m.result.Notes, text)
	}
}
