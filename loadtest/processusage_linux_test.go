package loadtest

import (
	"os"
	"testing"
	"time"
)

// The CPU clock counts a busy loop, and no sleep.
func TestCPUClock(t *testing.T) {
	read := func() cpuTime {
		c, err := readOneCPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := read()
	for start := time.Now(); read().total-before.total < 30*time.Millisecond; {
		if time.Since(start) > time.Minute {
			t.Fatal("busy for a minute, and the clock shows less than 30ms")
		}
	}
	after := read()
	if user, system := after.since(before); user < 0 || system < 0 || user+system != after.total-before.total {
		t.Errorf("user %s and system %s of %s: want them to add up", user, system, after.total-before.total)
	}
	if _, err := readOneCPU(1 << 22); err == nil {
		t.Error("a process that cannot be has a clock")
	}
}

func TestMemory(t *testing.T) {
	m, err := readOneMemory(os.Getpid())
	if err != nil || m.AnonBytes <= 0 || m.FileBytes <= 0 || m.PeakBytes < m.AnonBytes {
		t.Errorf("%+v, %v: want all above 0", m, err)
	}
}
