package loadtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A shell that stays, and one that leaves a process with its standard error, both end without a
// wait.
func TestChildEndsWithItsGroup(t *testing.T) {
	for _, script := range []string{"sleep 100.5 2>&1 | cat >&2", "sleep 100.5 & exit 0", "cd / && A=1 sleep 100.5"} {
		c, err := startChild(exec.Command("/bin/sh", "-c", script), anyCPU)
		must(t, err)
		for c.alive() == nil && len(running(t, "sleep\x00100.5\x00")) == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := c.terminate(); err != nil && strings.Contains(err.Error(), "still running") {
			t.Errorf("%s: %v", script, err)
		}
		// A process that was killed is listed until its end.
		for began := time.Now(); len(running(t, "sleep\x00100.5\x00")) > 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: processes %v are left", script, running(t, "sleep\x00100.5\x00"))
			}
		}
	}
}

func TestChildThatEndsByItself(t *testing.T) {
	for script, want := range map[string]string{
		"true":                         "/bin/sh ended by itself, without an error",
		"echo no such file >&2; false": "/bin/sh ended by itself, exit status 1\nno such file",
	} {
		c, err := startChild(exec.Command("/bin/sh", "-c", script), anyCPU)
		must(t, err)
		<-c.ended
		if err := c.alive(); err == nil || err.Error() != want {
			t.Errorf("%s: %q, want %q", script, err, want)
		}
	}
}

// running are the processes with a command line.
func running(t *testing.T, command string) (ids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, list := range lists {
		if text, err := os.ReadFile(list); err == nil && string(text) == command {
			id, _ := strconv.Atoi(filepath.Base(filepath.Dir(list)))
			ids = append(ids, id)
		}
	}
	return ids
}

const orphanEnv = "SLUICE_LOADTEST_ORPHAN"

// A killed load test takes its server with it.
func TestChildDiesWithItsParent(t *testing.T) {
	if os.Getenv(orphanEnv) != "" {
		c, err := startChild(exec.Command("/bin/sleep", "100.25"), anyCPU)
		must(t, err)
		fmt.Println("child", c.pid())
		time.Sleep(time.Minute)
		return
	}
	parent := exec.Command(os.Args[0], "-test.run", "^TestChildDiesWithItsParent$")
	parent.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	child := strings.TrimSpace(strings.TrimPrefix(said, "child "))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if state, err := os.ReadFile("/proc/" + child + "/cmdline"); err != nil || len(state) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s outlived its parent", child)
		}
	}
}

// The CPU clock counts a busy loop, and no sleep.
func TestCPUClock(t *testing.T) {
	read := func() cpuTime {
		c, err := readOneCPU(os.Getpid())
		must(t, err)
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
