package loadtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what a process has used of the processors, threads that ended included.
type cpuTime struct {
	total time.Duration // exact
	// By sampling at each tick or exactly, as the kernel was built: good for the proportion.
	user, all time.Duration
}

// The three clocks of a process, in the lowest bits of the id that clock_getcpuclockid(3) makes of its
// number: include/linux/posix-timers_types.h.
const (
	clockUserAndSystem = 0 // CPUCLOCK_PROF
	clockUser          = 1 // CPUCLOCK_VIRT
	clockExact         = 2 // CPUCLOCK_SCHED
)

// readCPU is what a process and those that it started have used.
func readCPU(pid int) (sum cpuTime, err error) {
	for i, one := range family(pid) {
		c, err := readOneCPU(one)
		if err != nil && i == 0 {
			return cpuTime{}, err
		}
		if err == nil { // else it has ended
			sum.total, sum.user, sum.all = sum.total+c.total, sum.user+c.user, sum.all+c.all
		}
	}
	return sum, nil
}

func readOneCPU(pid int) (c cpuTime, err error) {
	for clock, into := range map[int32]*time.Duration{clockUserAndSystem: &c.all, clockUser: &c.user, clockExact: &c.total} {
		var t unix.Timespec
		if err := unix.ClockGettime(^int32(pid)<<3|clock, &t); err != nil {
			return cpuTime{}, fmt.Errorf("CPU clock of process %d: %w", pid, os.NewSyscallError("clock_gettime", err))
		}
		*into = time.Duration(t.Nano())
	}
	return c, nil
}

// since is user and system time between two readings; they add up to the exact time.
func (c cpuTime) since(before cpuTime) (user, system time.Duration) {
	total := c.total - before.total
	share := 0.0
	if all := c.all - before.all; all > 0 {
		share = min(float64(c.user-before.user)/float64(all), 1)
	}
	user = time.Duration(share * float64(total))
	return user, total - user
}

// readMemory is the memory of a process and of those that it started. The sum of their peaks is the most that it can have been.
func readMemory(pid int) (sum Memory, err error) {
	for i, one := range family(pid) {
		m, err := readOneMemory(one)
		if err != nil && i == 0 {
			return Memory{}, err
		}
		sum.PeakBytes, sum.AnonBytes, sum.FileBytes = sum.PeakBytes+m.PeakBytes, sum.AnonBytes+m.AnonBytes, sum.FileBytes+m.FileBytes
	}
	return sum, nil
}

// readOneMemory is the memory of a process as /proc/PID/status has it.
func readOneMemory(pid int) (Memory, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for field, into := range map[string]*int64{"VmHWM:": &m.PeakBytes, "RssAnon:": &m.AnonBytes, "RssFile:": &m.FileBytes} {
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
