package store

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

// Badger writes through mapped memory. On a disk that stands still its thread waits in a page fault, which keeps its
// share of Go's scheduler and stops the next garbage collection, and with it the whole process; on one that is full or
// broken the process dies. So it has a process of its own, which may wait and die alone: a child, this program started
// again. Ours sends it transactions through a pipe, which it can wait for without keeping anything.
//
// To the child:   length, then for each entry: operation, key and, if it is set, value, each behind its length
// From the child: verdict, length and text: first of opening, then of each transaction, last of closing
//
// Lengths are big-endian uint32. The end of its input ends the child.
//
// fsync waits in the kernel, where nothing ends it: a process with a thread in there does not end before the disk
// answers. So the child does that too, asked through a second pair of pipes: a byte to it, a verdict from it.

// apartEnv names the database to keep, and thereby makes the process its keeper.
const apartEnv = "SLUICE_STORE_DATABASE"

const (
	entrySet    = 's'
	entryDelete = 'd'

	askSync = 's'
	askCopy = 'c' // of the manifest

	// mostComplaint bounds what is kept of what a dying child says.
	mostComplaint = 16 << 10
)

// errUnstarted: there is no child, which says nothing about the database.
var errUnstarted = errors.New("the database's process could not be started")

// errDied: the child is gone. What it wrote is still with the kernel.
var errDied = errors.New("the database's process ended")

// canBeApart says that this program's main calls ChildMain: else a child would be something else.
var canBeApart bool

// An apart is a database in a process of its own. Its owner is the flush, but for what keep owns.
type apart struct {
	in    io.WriteCloser
	out   *bufio.Reader
	close func() error // of out
	frame []byte

	asking   sync.Mutex // guards ask and told: one question at a time
	ask      *os.File
	told     *os.File
	isClosed atomic.Bool // the child has been told to end

	process   *os.Process
	ended     chan struct{}
	complaint complaint // settled, as exit is, when ended is closed
	exit      error
}

// openApart starts the child and waits until it has opened the database. The child holds the folder's lock as long as it
// lives, which may be longer than we do.
func openApart(dir string, lock *os.File, logger *slog.Logger) (*apart, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnstarted, err)
	}
	a := &apart{ended: make(chan struct{})}
	a.complaint.logger = logger
	cmd := exec.Command(program)
	cmd.Args = []string{program, "(database " + dir + ")"} // for who lists processes
	cmd.Env = append(os.Environ(), apartEnv+"="+dir)
	cmd.ExtraFiles = []*os.File{lock}
	// What is sent to the group of a terminal is for us to act on; the child goes when we do.
	cmd.SysProcAttr = childAttributes()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnstarted, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnstarted, err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnstarted, err)
	}
	asked, ask, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnstarted, err)
	}
	told, tells, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnstarted, errors.Join(err, asked.Close(), ask.Close()))
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, asked, tells) // see childAsked, childTells
	a.in, a.out, a.close, a.ask, a.told = in, bufio.NewReader(out), out.Close, ask, told
	started := make(chan error)
	go a.keep(cmd, said, started)
	if err := <-started; err != nil {
		a.closePipes()
		return nil, fmt.Errorf("%w: %w", errUnstarted, err)
	}
	if err := a.answer(); err != nil {
		_ = in.Close()
		a.closePipes()
		return nil, err
	}
	return a, nil
}

// keep starts the child and waits for its end, on one thread: the child dies with the thread that made it.
func (a *apart) keep(cmd *exec.Cmd, said io.ReadCloser, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(a.ended)
	err := cmd.Start()
	for _, theirs := range cmd.ExtraFiles[1:] { // the lock stays ours, too
		_ = theirs.Close()
	}
	a.process = cmd.Process
	started <- err
	if err != nil {
		return
	}
	a.complaint.read(said)
	_ = said.Close()
	state, err := cmd.Process.Wait() // that of cmd would close what its last answer is in
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	a.exit = err
}

// answer waits for a verdict on what the flush asked for.
func (a *apart) answer() error {
	said, err := readVerdict(a.out)
	if err != nil {
		return a.death(err)
	}
	return said
}

// upkeep has the child do something beside writing.
func (a *apart) upkeep(what byte) error {
	a.asking.Lock()
	defer a.asking.Unlock()
	_, err := a.ask.Write([]byte{what})
	var said error
	if err == nil {
		said, err = readVerdict(a.told)
	}
	switch {
	case err == nil:
		return said
	case a.isClosed.Load():
		return errClosing
	}
	return a.death(err)
}

// sync implements database.
func (a *apart) sync() error { return a.upkeep(askSync) }

// renewCopy implements database.
func (a *apart) renewCopy() error { return a.upkeep(askCopy) }

// death says how the child ended, which err was the first sign of.
func (a *apart) death(err error) error {
	_ = a.in.Close() // if it still lives, that ends it
	<-a.ended
	return fmt.Errorf("%w (%v: %v): %s", errDied, a.exit, err, firstLine(string(a.complaint.text)))
}

func (a *apart) begin() transaction {
	a.frame = append(a.frame[:0], 0, 0, 0, 0)
	return (*apartTransaction)(a)
}

// Close implements database.
func (a *apart) Close() error {
	defer a.closePipes()
	a.isClosed.Store(true)
	err := a.in.Close()
	select {
	case <-a.ended: // before it was asked to
		if a.exit != nil {
			return fmt.Errorf("%w: %w", errDied, a.exit)
		}
		return err
	default:
	}
	if err == nil {
		err = a.answer()
	}
	<-a.ended
	return err
}

// kill ends the child with the database unclosed.
func (a *apart) kill() {
	a.abandon()
	<-a.ended
	_ = a.in.Close()
	a.closePipes()
}

// abandon has the child killed, and does not wait for its end: a disk that stands still may keep it. Any goroutine
// may call it.
func (a *apart) abandon() {
	a.isClosed.Store(true)
	_ = a.process.Kill() // else it has ended already
}

// closePipes follows the end of the child.
func (a *apart) closePipes() {
	_, _, _ = a.close(), a.ask.Close(), a.told.Close()
}

// An apartTransaction is the running one of an apart.
type apartTransaction apart

// Set implements transaction.
func (t *apartTransaction) Set(key, value []byte) error {
	t.frame = appendPiece(appendPiece(append(t.frame, entrySet), key), value)
	return nil
}

// Delete implements transaction.
func (t *apartTransaction) Delete(key []byte) error {
	t.frame = appendPiece(append(t.frame, entryDelete), key)
	return nil
}

func appendPiece(dst, piece []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(piece))), piece...)
}

// Commit implements transaction.
func (t *apartTransaction) Commit() error {
	binary.BigEndian.PutUint32(t.frame, uint32(len(t.frame)-4))
	a := (*apart)(t)
	if _, err := a.in.Write(t.frame); err != nil {
		return a.death(err)
	}
	return a.answer()
}

// Discard implements transaction.
func (t *apartTransaction) Discard() {}

// A complaint is what Go says of a child that dies. Its log, which comes the same way, goes into ours.
type complaint struct {
	logger *slog.Logger
	text   []byte
}

// read reads until the child ends.
func (c *complaint) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "time="): // as keeperMain logs
			c.logger.Warn("the database's process: " + line)
		case len(c.text)+len(line) < mostComplaint:
			c.text = append(append(c.text, line...), '\n')
		}
	}
	_, _ = io.Copy(io.Discard, from)
}
