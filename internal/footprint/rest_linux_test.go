package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Memory is returned while the process is at rest, and rarely.
func TestLook(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // only Look collects
	for _, look := range []struct {
		about    string
		busy     bool
		returned time.Duration // ago
		returns  bool
	}{
		{"at work", true, returnInterval, false},
		{"at rest", false, returnInterval, true},
		{"at rest, again", false, Interval, false},
	} {
		makeGarbage()
		touchProgram(t)
		heap, files := returnableHeap(), residentFiles(t)
		if heap < heapWorth {
			t.Fatalf("%d bytes of garbage: the test needs more", heap)
		}
		r := NewRest()
		r.looked, r.returned = r.looked.Add(-Interval), r.looked.Add(-look.returned)
		if look.busy {
			r.cpu -= Interval
		}
		r.Look()
		if after := returnableHeap(); (after < heap/2) != look.returns {
			t.Errorf("%s: %d of %d bytes of the heap can still be returned", look.about, after, heap)
		}
		if after := residentFiles(t); (after <= files/10*9) != look.returns {
			t.Errorf("%s: %d of %d bytes of files are still resident", look.about, after, files)
		}
	}
}

func makeGarbage() {
	runtime.GC()
	for range 4 * heapWorth >> 10 {
		garbage = make([]byte, 1<<10)
	}
	garbage = nil
}

var garbage []byte

func TestCPUTimeGrows(t *testing.T) {
	began, end := cpuTime(), time.Now().Add(time.Minute)
	for cpuTime() < began+10*time.Millisecond {
		if time.Now().After(end) {
			t.Fatal("no CPU time in a minute of work")
		}
	}
}
