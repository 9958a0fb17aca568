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

// child is a process that this one started, ends and waits for.
type child struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read once ended is closed
	ended  chan struct{}
	err    error // what Wait said; likewise
}

// startChild starts a process on one processor; it inherits the affinity of the thread that forks.
func startChild(cmd *exec.Cmd, cpu int) (*child, error) {
	c := &child{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &c.stderr
	// A terminal's Ctrl-C reaches this process alone, which then ends its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := onCPU(cpu, cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		defer close(c.ended)
		c.err = cmd.Wait()
	}()
	return c, nil
}

// onCPU calls f on a thread bound to a processor, and gives the thread back as it was.
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

// alive is an error once the child has ended, with what it said last.
func (c *child) alive() error {
	select {
	case <-c.ended:
		return fmt.Errorf("%s ended by itself: %v\n%s", c.cmd.Path, c.err, c.lastWords())
	default:
		return nil
	}
}

const maxLastWords = 2000

func (c *child) lastWords() string {
	text := strings.TrimSpace(c.stderr.String())
	if cut := len(text) - maxLastWords; cut > 0 {
		text = "…" + text[cut:]
	}
	return text
}

// stopPatience is how long a child may take to end once it was asked to.
const stopPatience = 30 * time.Second

// terminate asks the child to end, and waits.
func (c *child) terminate() error {
	_ = c.cmd.Process.Signal(unix.SIGTERM) // fails only if it has ended
	return c.awaitEnd()
}

// awaitEnd waits for a child that was asked to end, and ends it itself where it does not.
func (c *child) awaitEnd() error {
	select {
	case <-c.ended:
		if c.err != nil {
			return fmt.Errorf("%s did not end well: %w\n%s", c.cmd.Path, c.err, c.lastWords())
		}
		return nil
	case <-time.After(stopPatience):
		_ = c.cmd.Process.Kill()
		<-c.ended
		return fmt.Errorf("%s was still running %s after it was asked to end", c.cmd.Path, stopPatience)
	}
}

// await repeats a question until the answer is yes, the child ends, or patience does.
func (c *child) await(ctx context.Context, what string, patience time.Duration, is func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		yes, err := is()
		if yes {
			return nil
		}
		if ended := c.alive(); ended != nil {
			return ended
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("no %s after %s", what, patience), err)
		}
		if err := rest(ctx, awaitPoll); err != nil {
			return err
		}
	}
}

const awaitPoll = 20 * time.Millisecond
