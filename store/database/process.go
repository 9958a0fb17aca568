package database

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Badger writes through mapped memory. On a stalled disk its thread waits in a page fault, which
// keeps its share of Go's scheduler and stops the next garbage collection, and with it the whole
// process. On a full or failing disk the process dies. A thread in fsync waits in the kernel, and a
// process doesn't end before that answers. So Badger has a process of its own, which may wait and
// die alone: this program, started again.

// maxCrashText bounds the text that is kept of a crashing storage process.
const maxCrashText = 16 << 10

// errNotStarted: there is no storage process, which says nothing about the database.
var errNotStarted = errors.New("the storage process could not be started")

// A Process is a database in the storage process. It implements DB. The writing goroutine owns it,
// except for the fields with another owner named.
type Process struct {
	in      io.WriteCloser
	results *bufio.Reader
	close   func() error // closes results
	frame   []byte       // of the transaction under way

	requesting     sync.Mutex // guards the next two: one request at a time
	requests       *os.File
	requestResults *os.File
	closing        atomic.Bool // the child was told to end

	process *os.Process
	ended   chan struct{}
	stderr  stderrReader // complete, as exit is, once ended is closed
	exit    error
}

// startProcess starts a storage process and waits until it has opened the database. The child holds
// the data folder's lock as long as it lives, which may be longer than this process does.
func startProcess(dir string, lock *os.File, logger *slog.Logger) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	p := &Process{ended: make(chan struct{}), stderr: stderrReader{logger: logger}}
	cmd := exec.Command(program)
	cmd.Args = []string{program, "(database " + dir + ")"} // shown in lists of processes
	cmd.Env = append(os.Environ(), processEnv+"="+dir)
	// The kernel kills the child when this process dies. A process group of its own keeps a
	// terminal's signals from it.
	cmd.SysProcAttr = childAttributes()
	stderr, err := p.makePipes(cmd, lock)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	started := make(chan error)
	go p.run(cmd, stderr, started)
	if err := <-started; err != nil {
		p.closePipes()
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	if err := p.result(); err != nil {
		_ = p.in.Close()
		p.closePipes()
		return nil, err
	}
	return p, nil
}

func (p *Process) makePipes(cmd *exec.Cmd, lock *os.File) (stderr io.ReadCloser, err error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if stderr, err = cmd.StderrPipe(); err != nil {
		return nil, err
	}
	childRequests, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	requestResults, childResults, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childRequests.Close(), requests.Close())
	}
	cmd.ExtraFiles = []*os.File{lock, childRequests, childResults} // in the order of the constants of these names
	p.in, p.results, p.close, p.requests, p.requestResults = in, bufio.NewReader(out), out.Close, requests, requestResults
	return stderr, nil
}

// run starts the child and waits for its end, on one thread: the kernel kills the child when the
// thread that started it ends.
func (p *Process) run(cmd *exec.Cmd, stderr io.ReadCloser, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := cmd.Start()
	for _, childEnd := range cmd.ExtraFiles[1:] { // the lock stays open here
		_ = childEnd.Close()
	}
	p.process = cmd.Process
	started <- err
	if err != nil {
		return
	}
	p.stderr.readAll(stderr)
	_ = stderr.Close()
	state, err := cmd.Process.Wait() // cmd.Wait would close the pipe that holds the last result
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	p.exit = err
}

// result waits for the result of what the writing goroutine sent.
func (p *Process) result() error {
	result, err := readResult(p.results)
	if err != nil {
		return p.death(err)
	}
	return result
}

// Sync implements DB.
func (p *Process) Sync() error {
	p.requesting.Lock()
	defer p.requesting.Unlock()
	_, err := p.requests.Write([]byte{requestSync})
	var result error
	if err == nil {
		result, err = readResult(p.requestResults)
	}
	switch {
	case err == nil:
		return result
	case p.closing.Load():
		return ErrClosed
	}
	return p.death(err)
}

// death returns how the child ended, of which err was the first sign.
func (p *Process) death(err error) error {
	_ = p.in.Close() // ends the child if it still lives
	<-p.ended
	return fmt.Errorf("%w (%v: %v): %s", ErrDied, p.exit, err, firstLine(string(p.stderr.crash)))
}

// Compact implements DB.
func (p *Process) Compact() error {
	p.frame = append(p.frame[:0], 0, 0, 0, 0, entryCompact)
	return (*processTransaction)(p).Commit()
}

// Begin implements DB.
func (p *Process) Begin() Transaction {
	p.frame = append(p.frame[:0], 0, 0, 0, 0)
	return (*processTransaction)(p)
}

// Close implements DB.
func (p *Process) Close() error {
	defer p.closePipes()
	p.closing.Store(true)
	err := p.in.Close()
	select {
	case <-p.ended: // before it was told to
		if p.exit != nil {
			return fmt.Errorf("%w: %w", ErrDied, p.exit)
		}
		return err
	default:
	}
	if err == nil {
		err = p.result()
	}
	<-p.ended
	return err
}

// Kill implements DB.
func (p *Process) Kill() {
	p.Abandon()
	<-p.ended
	_ = p.in.Close()
	p.closePipes()
}

// Abandon implements DB.
func (p *Process) Abandon() {
	p.closing.Store(true)
	_ = p.process.Kill() // fails only if it has ended already
}

// closePipes follows the end of the child.
func (p *Process) closePipes() {
	_, _, _ = p.close(), p.requests.Close(), p.requestResults.Close()
}

// A processTransaction is the transaction under way of a Process.
type processTransaction Process

// Set implements Transaction.
func (t *processTransaction) Set(key, value []byte) error {
	t.frame = appendPiece(appendPiece(append(t.frame, entrySet), key), value)
	return nil
}

// Delete implements Transaction.
func (t *processTransaction) Delete(key []byte) error {
	t.frame = appendPiece(append(t.frame, entryDelete), key)
	return nil
}

// Commit implements Transaction.
func (t *processTransaction) Commit() error {
	binary.BigEndian.PutUint32(t.frame, uint32(len(t.frame)-4))
	p := (*Process)(t)
	if _, err := p.in.Write(t.frame); err != nil {
		return p.death(err)
	}
	return p.result()
}

// Discard implements Transaction.
func (t *processTransaction) Discard() {}

// A stderrReader reads the child's standard error: log lines, which it logs here, and Go's report
// of a crash.
type stderrReader struct {
	logger *slog.Logger
	crash  []byte
}

// readAll reads until the child ends.
func (r *stderrReader) readAll(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "time="): // a line of processMain's logger
			r.logger.Warn("the storage process: " + line)
		case len(r.crash)+len(line) < maxCrashText:
			r.crash = append(append(r.crash, line...), '\n')
		}
	}
	_, _ = io.Copy(io.Discard, from)
}

// The environment variables that make a child of this program a probe or a storage process, and
// name its folder.
const (
	probeEnv    = "SLUICE_STORE_TRIAL"
	readOnlyEnv = "SLUICE_STORE_TRIAL_READ_ONLY" // beside probeEnv: the folder is the database itself, so write nothing
	processEnv  = "SLUICE_STORE_DATABASE"
)

// hasChildMain says that this program's main calls ChildMain; without that a child would be a
// second server.
var hasChildMain bool

// ChildMain runs the probe or the storage process if this process was started as one, and returns
// its exit code. In any other process it does nothing. Main calls it first.
func ChildMain() (code int, isChild bool) {
	if dir := os.Getenv(probeEnv); dir != "" {
		return probeMain(dir), true
	}
	if dir := os.Getenv(processEnv); dir != "" {
		return processMain(dir, pollable(0, "transactions"), os.Stdout), true
	}
	hasChildMain = true
	return 0, false
}

// DefaultPlace is StorageProcess where the program calls ChildMain, else InProcess.
func DefaultPlace() Place {
	if hasChildMain {
		return StorageProcess
	}
	return InProcess
}
