package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time of a process, ended threads included.
type cpuTime struct {
	total time.Duration // exact
	// Exact or sampled at each clock tick, depending on the kernel's build: use only the
	// proportion.
	user, all time.Duration
}

// The three clocks of a process, in the lowest bits of the clock ID that clock_getcpuclockid(3)
// derives from the process ID: include/linux/posix-timers_types.h.
const (
	clockUserAndSystem = 0 // CPUCLOCK_PROF
	clockUser          = 1 // CPUCLOCK_VIRT
	clockExact         = 2 // CPUCLOCK_SCHED
)

// readCPU returns the CPU time of a process and all descendants.
func readCPU(pid int) (sum cpuTime, err error) {
	for i, one := range processTree(pid) {
		c, err := readOneCPU(one)
		if err != nil && i == 0 {
			return cpuTime{}, err
		}
		if err == nil { // else the process has ended
			sum.total, sum.user, sum.all = sum.total+c.total, sum.user+c.user, sum.all+c.all
		}
	}
	return sum, nil
}

func readOneCPU(pid int) (c cpuTime, err error) {
	for clock, into := range map[int32]*time.Duration{clockUserAndSystem: &c.all, clockUser: &c.user,
		clockExact: &c.total} {
		var t unix.Timespec
		if err := unix.ClockGettime(^int32(pid)<<3|clock, &t); err != nil {
			return cpuTime{}, fmt.Errorf("CPU clock of process %d: %w", pid, os.NewSyscallError("clock_gettime", err))
		}
		*into = time.Duration(t.Nano())
	}
	return c, nil
}

// since returns the user and system time between two readings; the sum of both is exact.
func (c cpuTime) since(before cpuTime) (user, system time.Duration) {
	total := c.total - before.total
	share := 0.0
	if all := c.all - before.all; all > 0 {
		share = min(float64(c.user-before.user)/float64(all), 1)
	}
	user = time.Duration(share * float64(total))
	return user, total - user
}

// readMemory returns the memory of a process and all descendants. The sum of all peaks is an upper
// bound of the common peak.
func readMemory(pid int) (sum Memory, err error) {
	for i, one := range processTree(pid) {
		m, err := readOneMemory(one)
		if err != nil && i == 0 {
			return Memory{}, err
		}
		sum.PeakBytes, sum.AnonBytes, sum.FileBytes = sum.PeakBytes+m.PeakBytes, sum.AnonBytes+
			m.AnonBytes, sum.FileBytes+m.FileBytes
	}
	return sum, nil
}

// readOneMemory reads the memory of a process from /proc/PID/status.
func readOneMemory(pid int) (Memory, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for field, into := range map[string]*int64{"VmHWM:": &m.PeakBytes, "RssAnon:": &m.AnonBytes,
		"RssFile:": &m.FileBytes} {
		_, rest, _ := strings.Cut(string(text), "\n"+field)
		words := strings.Fields(rest)
		if len(words) < 2 || words[1] != "kB" {
			return Memory{}, fmt.Errorf("%s: no %s in kB", path, field)
		}
		kilobytes, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s: %s %w", path, field, err)
		}
		*into = kilobytes << 10
	}
	return m, nil
}

// resetPeak resets the peak of resident memory of a process and all descendants:
// proc_pid_clear_refs(5).
func resetPeak(pid int) error {
	var errs []error
	for _, one := range processTree(pid) {
		errs = append(errs, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", one), []byte("5"), 0))
	}
	return errors.Join(errs...)
}

// processTree returns a process and all descendants, each parent before the children.
func processTree(pid int) []int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if one, err := strconv.Atoi(e.Name()); err == nil {
			parents[one] = parentOf(one)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for one, parent := range parents {
			if parent == all[i] {
				all = append(all, one)
			}
		}
	}
	return all
}

// parentOf returns the parent's process ID, or 0 for a process that has ended: proc_pid_stat(5).
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before the ")" may contain any character
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
