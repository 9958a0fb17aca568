// Package child runs processes that die with the test that started them, whether it ends, fails,
// is interrupted or is killed.
package child

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a started child. Its methods may be called at any time, also after its end.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // written before done is closed
}

// Start starts a command; only the Process may wait for it.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// The system sends the death signal when the parent's thread ends, not its process: the
		// thread that starts the child stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// ID is the process ID.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is the error of exec.Cmd.Wait; valid after Done.
func (p *Process) Err() error { return p.err }

// Signal sends a signal.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}
