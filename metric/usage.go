package metric

import (
	"fmt"
	"time"
)

// Container names a container. One without a pod is the node.
type Container struct{ Namespace, Pod, Name string }

// UsageReading is one measurement of what a container or a node uses.
type UsageReading struct {
	// Started is when the container started; zero: not said.
	Started time.Time
	// CPU is the processor time used since then, measured at CPUAt; a zero CPUAt: it is not said.
	CPU   time.Duration
	CPUAt time.Time
	// Memory is the working set in bytes, measured at MemoryAt; a zero MemoryAt: it is not said.
	Memory   uint64
	MemoryAt time.Time
}

// UsagePage is what was measured on a node.
type UsagePage struct {
	Readings map[Container]UsageReading
	// Unnamed are the readings of containers whose pods the source does not know, by the container's ID.
	Unnamed map[string]UsageReading
	// Step is the length of the points that windows are made of, where the source measures more often; 0: it does not.
	Step time.Duration
	// Faults counts impossible readings, such as a negative number or a repeated container; FirstFault
	// describes the first.
	Faults     int
	FirstFault string
}

// Fault notes an impossible reading.
func (p *UsagePage) Fault(format string, args ...any) {
	if p.Faults++; p.Faults == 1 {
		p.FirstFault = fmt.Sprintf(format, args...)
	}
}
