package loadtest

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

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
