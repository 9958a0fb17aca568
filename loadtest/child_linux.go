package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a process that the load test started, with all descendants.
type child struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // valid after ended is closed
	ended  chan struct{}
	err    error // the result of Wait; valid after ended is closed
}

// wordsTimeout bounds the wait for the output of a child that has ended: a process that the child
// left behind may hold the pipe open.
const wordsTimeout = time.Second

// startChild starts a process on one processor: it inherits the affinity of the thread that forks.
func startChild(cmd *exec.Cmd, cpu int) (*child, error) {
	c := &child{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr, cmd.WaitDelay = &c.stderr, wordsTimeout
	// Ctrl-C in a terminal reaches the load test alone, which ends the children in order. The
	// children die with the load test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	started := make(chan error)
	go c.keep(cpu, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// keep starts the child and waits for its end on one thread: a child dies with the thread that
// started it.
func (c *child) keep(cpu int, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.ended)
	err := onCPU(cpu, c.cmd.Start)
	started <- err
	if err != nil {
		return
	}
	c.awaitExit()
	c.signalGroup(unix.SIGKILL) // the child's own children: a shell doesn't wait for them
	if c.err = c.cmd.Wait(); errors.Is(c.err, exec.ErrWaitDelay) {
		c.err = nil // a clean end
	}
}

// awaitExit returns when the child has ended. The kernel does not reuse the process ID until Wait.
func (c *child) awaitExit() {
	for unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// onCPU calls f on a thread that is bound to a processor, and restores the thread's affinity.
func onCPU(cpu int, f func() error) error {
	if cpu == anyCPU {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// alive returns an error with the child's last output once the child has ended.
func (c *child) alive() error {
	select {
	case <-c.ended:
		how := "without an error"
		if c.err != nil {
			how = c.err.Error()
		}
		return errors.New(strings.TrimSpace(fmt.Sprintf("%s ended by itself, %s\n%s", c.cmd.Path, how, c.lastOutput())))
	default:
		return nil
	}
}

const maxLastOutput = 2000

func (c *child) lastOutput() string {
	text := strings.TrimSpace(c.stderr.String())
	if cut := len(text) - maxLastOutput; cut > 0 {
		text = "…" + text[cut:]
	}
	return text
}

// stopTimeout bounds the end of a child after SIGTERM.
const stopTimeout = 30 * time.Second

// terminate sends SIGTERM to the child's process group and waits.
func (c *child) terminate() error {
	select {
	case <-c.ended: // the process ID may be reused
	default:
		c.signalGroup(unix.SIGTERM)
	}
	return c.awaitEnd()
}

// signalGroup signals the child's process group.
func (c *child) signalGroup(signal unix.Signal) { _ = unix.Kill(-c.pid(), signal) } // fails only if all have ended

// awaitEnd waits for the child's end, and kills its process group after stopTimeout.
func (c *child) awaitEnd() error {
	select {
	case <-c.ended:
		if c.err != nil {
			return fmt.Errorf("%s did not end well: %w\n%s", c.cmd.Path, c.err, c.lastOutput())
		}
		return nil
	case <-time.After(stopTimeout):
		c.signalGroup(unix.SIGKILL)
		<-c.ended
		return fmt.Errorf("%s was still running %s after it was asked to end", c.cmd.Path, stopTimeout)
	}
}

// await calls is repeatedly until is returns true, the child ends, or the timeout passes.
func (c *child) await(ctx context.Context, what string, timeout time.Duration, is func() (bool, error)) error {
	for deadline := time.Now().Add(timeout); ; {
		yes, err := is()
		if yes {
			return nil
		}
		if ended := c.alive(); ended != nil {
			return ended
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("no %s after %s", what, timeout), err)
		}
		if err := rest(ctx, awaitPoll); err != nil {
			return err
		}
	}
}

const awaitPoll = 20 * time.Millisecond

// choose returns the first two processors that this process may use. With only one, nothing is
// pinned.
func choose(pin bool) (processors, error) {
	unpinned := processors{anyCPU, anyCPU}
	if !pin {
		return unpinned, nil
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return unpinned, os.NewSyscallError("sched_getaffinity", err)
	}
	var usable []int
	for cpu := 0; len(usable) < min(set.Count(), 2); cpu++ {
		if set.IsSet(cpu) {
			usable = append(usable, cpu)
		}
	}
	if len(usable) < 2 {
		return unpinned, nil
	}
	return processors{server: usable[0], sender: usable[1]}, nil
}

// pinSender binds every thread of this process; restore resets the threads to the previous
// affinity. A later thread inherits the affinity of the thread that starts it. The second round
// catches threads that were started during the first.
func (p processors) pinSender() (restore func() error, err error) {
	if !p.pinned() {
		return func() error { return nil }, nil
	}
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	only.Set(p.sender)
	for range 2 {
		if err := bindThreads(&only); err != nil {
			return nil, fmt.Errorf("pin the sender to CPU %d: %w", p.sender, err)
		}
	}
	return func() error { return bindThreads(&before) }, nil
}

func bindThreads(to *unix.CPUSet) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, to); err != nil && err != unix.ESRCH { // the thread may have ended
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	return nil
}

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
		for p, parent := range parents {
			if parent == all[i] {
				all = append(all, p)
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
