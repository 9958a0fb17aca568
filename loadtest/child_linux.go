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

// child is a process that this one started, ends and waits for, with those that it starts in turn.
type child struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read once ended is closed
	ended  chan struct{}
	err    error // what Wait said; likewise
}

// wordsPatience is how long is waited for the last words of a child that has ended: one that it left behind may hold
// its standard error.
const wordsPatience = time.Second

// startChild starts a process on one processor; it inherits the affinity of the thread that forks.
func startChild(cmd *exec.Cmd, cpu int) (*child, error) {
	c := &child{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr, cmd.WaitDelay = &c.stderr, wordsPatience
	// A terminal's Ctrl-C reaches this process alone, which then ends its children in order. If it is killed, they die.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	started := make(chan error)
	go c.keep(cpu, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// keep starts the child and waits for its end, on one thread: the child dies with the thread that made it.
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
	c.signalGroup(unix.SIGKILL) // whom it left behind: a shell that was asked to end waits for nobody
	if c.err = c.cmd.Wait(); errors.Is(c.err, exec.ErrWaitDelay) {
		c.err = nil // it ended well
	}
}

// awaitExit returns when the child has ended. Its number stays its own until Wait.
func (c *child) awaitExit() {
	for unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
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
		how := "without an error"
		if c.err != nil {
			how = c.err.Error()
		}
		return errors.New(strings.TrimSpace(fmt.Sprintf("%s ended by itself, %s\n%s", c.cmd.Path, how, c.lastWords())))
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

// terminate asks the child and those that it started to end, and waits.
func (c *child) terminate() error {
	select {
	case <-c.ended: // the number may be another's
	default:
		c.signalGroup(unix.SIGTERM)
	}
	return c.awaitEnd()
}

// signalGroup signals the child and those that it started, which are of its group unless they left it.
func (c *child) signalGroup(signal unix.Signal) { _ = unix.Kill(-c.pid(), signal) } // fails only if all have ended

// awaitEnd waits for a child that was asked to end, and ends it itself where it does not.
func (c *child) awaitEnd() error {
	select {
	case <-c.ended:
		if c.err != nil {
			return fmt.Errorf("%s did not end well: %w\n%s", c.cmd.Path, c.err, c.lastWords())
		}
		return nil
	case <-time.After(stopPatience):
		c.signalGroup(unix.SIGKILL)
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
