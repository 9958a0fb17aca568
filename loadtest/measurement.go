package loadtest

import (
	"fmt"
	"slices"
)

// measurement is all runs of one scenario.
type measurement struct {
	Config
	scenario   Scenario
	lines      int64 // of a run of a load
	processors processors
	machine    *Machine
	result     *Result
	prepared   *floodLoad
	departures []string // from the standard run, as flags
	title      string   // of the run
	lastStep   string
}

// processors are the processors of the server and the sender.
type processors struct{ server, sender int }

// anyCPU leaves a process to the scheduler.
const anyCPU = -1

func (p processors) pinned() bool { return p.server != anyCPU }

// step reports what the run does next.
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
