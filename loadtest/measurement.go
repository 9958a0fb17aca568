package loadtest

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
	title      string // what is being done, for whoever watches
}

// processors are where server and sender run.
type processors struct{ server, sender int }

// anyCPU leaves a child where the scheduler puts it.
const anyCPU = -1

func (p processors) pinned() bool { return p.server != anyCPU }

// note adds what has to be known of the figures, once however many runs say so.
func (m *measurement) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.result.Notes, text) {
		m.result.Notes = append(m.result.Notes, text)
	}
}

const progressEvery = 200 * time.Millisecond

// showProgress says every now and then how much of something is done, until stop is called.
func (m *measurement) showProgress(what string, done *atomic.Int64, of int64, unit string) (stop func()) {
	if m.Progress == nil {
		return func() {}
	}
	over := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				_, _ = io.WriteString(m.Progress, "\r\x1b[K")
				return
			case <-ticker.C:
				_, _ = fmt.Fprintf(m.Progress, "\r\x1b[K%s: %s: %s %s", m.title, what, bar(done.Load(), of), unit)
			}
		}
	})
	return func() { close(over); wait.Wait() }
}

const barWidth = 24

// bar draws how much of a whole is done.
func bar(done, of int64) string {
	full := 0
	if of > 0 {
		full = int(min(max(done*barWidth/of, 0), barWidth))
	}
	cells := make([]rune, barWidth)
	for i := range cells {
		cells[i] = '░'
		if i < full {
			cells[i] = '█'
		}
	}
	return fmt.Sprintf("%s %s of %s", string(cells), grouped(float64(done)), grouped(float64(of)))
}
