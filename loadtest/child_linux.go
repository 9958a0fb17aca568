package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
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
