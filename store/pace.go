package store

import "time"

// pace lets who answers requests have the processor while a flush works. It sleeps where it could yield: Go looks at its sockets
// once nothing is left to run, and who yields is ready to run. On one processor, a flush of 50 ms that only yields makes
// requests wait for it, but for a look every 10 ms.
type pace struct{ begun time.Time }

const (
	slice = 500 * time.Microsecond
	rest  = 50 * time.Microsecond
)

func (p *pace) begin() { p.begun = time.Now() }

func (p *pace) step() {
	if time.Since(p.begun) > slice {
		time.Sleep(rest)
		p.begin()
	}
}
