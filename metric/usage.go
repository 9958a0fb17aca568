package metric

import "time"

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
	// Faults counts impossible readings, such as a negative number or a repeated container; Fault describes
	// the first.
	Faults int
	Fault  string
}
