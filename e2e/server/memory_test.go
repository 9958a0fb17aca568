package server

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// mostIdleMiB bounds the resident memory of an idle server and its storage process. The aim is 60
// MiB; 39 to 51 were measured. The rest is for kernels that round up to huge pages.
const mostIdleMiB = 75

// Memory that only the start needs is returned.
func TestIdleMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	s := New(t)
	s.Start()
	held, resident := 0, 0.0
	for deadline := time.Now().Add(time.Minute); held < 10 && time.Now().Before(deadline); held++ {
		time.Sleep(time.Second)
		children := s.Children()
		if len(children) != 1 {
			t.Fatalf("the children of the server are %v; must be the storage process", children)
		}
		if resident = residentMiB(t, s.PID()) + residentMiB(t, children[0]); resident > mostIdleMiB {
			held = 0
		}
	}
	if held < 10 {
		t.Fatalf("%.1f MiB are resident in an idle server and its storage process; must be at most %d", resident, mostIdleMiB)
	}
	t.Logf("%.1f MiB are resident", resident)
}

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

func residentMiB(t *testing.T, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	found := residentLine.FindSubmatch(status)
	if found == nil {
		t.Fatalf("/proc/%d/status has no VmRSS", pid)
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	must(t, err)
	return kib / 1024
}
