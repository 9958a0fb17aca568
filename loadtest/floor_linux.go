package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A floor writes two lines of JSON to standard output: the address at the start, and the counts
// after the end of standard input.
type (
	floorOpened struct {
		Port        int `json:"port"`
		BufferBytes int `json:"buffer_bytes"`
	}
	floorCounted struct {
		Lines     int64 `json:"lines"`
		Datagrams int64 `json:"datagrams"`
		Bytes     int64 `json:"bytes"`
	}
)

const (
	floorBatch  = 32
	floorPacket = 64 << 10
	// floorStride puts the buffers into different cache sets.
	floorStride = floorPacket + 24*64
	// floorGather is the sleep after a batch that was not full: later datagrams share a system
	// call. It is the server's, with a buffer of socketBuffer.
	floorGather = 10 * time.Millisecond
	// socketBuffer is the server's default size of a socket buffer.
	socketBuffer = 4 << 20
)

// FloorMain is the main function of a process that the load test started as a floor. A main
// function calls it first, and exits with the code if the process is one.
func FloorMain() (code int, isFloor bool) {
	way, isFloor := os.LookupEnv(floorEnv)
	if !isFloor {
		return 0, false
	}
	ctx, release := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer release()
	if err := runFloor(ctx, way, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// runFloor receives until in or ctx ends, and reports the counts.
func runFloor(ctx context.Context, way string, in io.Reader, out io.Writer) error {
	switch way {
	case answering:
		return answer(ctx, in, out)
	case gathering, blocking:
	default:
		return fmt.Errorf("%s is %q; must be %s, %s or %s", floorEnv, way, gathering, blocking, answering)
	}
	f, err := openFloor(way == blocking)
	if err != nil {
		return err
	}
	defer f.close()
	opened := floorOpened{BufferBytes: f.bufferBytes}
	if opened.Port, err = f.port(); err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(opened); err != nil {
		return err
	}
	var stop atomic.Bool
	end := func() { stop.Store(true); f.wake(opened.Port) }
	defer context.AfterFunc(ctx, end)()
	// The goroutine may last as long as the process: a read from a pipe cannot be interrupted.
	go func() {
		_, _ = io.Copy(io.Discard, in)
		end()
	}()
	run := f.gather
	if f.blocking {
		run = f.block
	}
	if err := run(&stop); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(f.counted)
}

type floor struct {
	fd, bufferBytes int
	blocking        bool
	headers         []mmsghdr
	vectors         []unix.Iovec
	memory          []byte
	counted         floorCounted
}

func openFloor(blocking bool) (_ *floor, err error) {
	f := &floor{blocking: blocking, memory: make([]byte, floorBatch*floorStride)}
	f.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(f.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		f.close()
		return nil, os.NewSyscallError("bind", err)
	}
	if unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) != nil {
		_ = unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer)
	}
	doubled, err := unix.GetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		f.close()
		return nil, os.NewSyscallError("getsockopt", err)
	}
	f.bufferBytes = doubled / 2
	f.headers, f.vectors = make([]mmsghdr, floorBatch), make([]unix.Iovec, floorBatch)
	for i := range f.headers {
		f.vectors[i].Base = &f.memory[i*floorStride]
		f.vectors[i].SetLen(floorPacket)
		f.headers[i].header.Iov = &f.vectors[i]
		f.headers[i].header.SetIovlen(1)
	}
	return f, nil
}

func (f *floor) close() { _ = unix.Close(f.fd) }

func (f *floor) port() (int, error) {
	bound, err := unix.Getsockname(f.fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	to, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("the socket is bound to a %T; must be IPv4", bound)
	}
	return to.Port, nil
}

// gather reads the datagrams in the queue, and sleeps after a batch that was not full. Like block,
// it bypasses Go's scheduler.
func (f *floor) gather(stop *atomic.Bool) error {
	debug.SetGCPercent(-1)
	sleep := unix.NsecToTimespec(int64(floorGather))
	for !stop.Load() {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(f.fd), uintptr(unsafe.Pointer(&f.headers[0])),
			floorBatch, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			f.count(int(n))
		case unix.EAGAIN, unix.EINTR:
			n = 0
		default:
			return os.NewSyscallError("recvmmsg", errno)
		}
		if n < floorBatch {
			_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&sleep)), 0, 0)
		}
	}
	return nil
}

// block waits in the kernel for a datagram and then reads all queued datagrams, as a program in C
// does. The system call bypasses Go's scheduler, whose cost is not the kernel's. So block occupies
// one of the scheduler's processors (start adds a second one), and garbage collection is off.
func (f *floor) block(stop *atomic.Bool) error {
	debug.SetGCPercent(-1)
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(f.fd), uintptr(unsafe.Pointer(&f.headers[0])),
			floorBatch, unix.MSG_WAITFORONE, 0, 0)
		if stop.Load() {
			return nil // woken by the datagram of wake, which arrives last
		}
		switch errno {
		case 0:
			f.count(int(n))
		case unix.EINTR:
		default:
			return os.NewSyscallError("recvmmsg", errno)
		}
	}
}

// wake ends the wait of block.
func (f *floor) wake(port int) {
	if f.blocking {
		_ = unix.Sendto(f.fd, nil, 0, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
}

func (f *floor) count(n int) {
	for i := range n {
		packet := f.memory[i*floorStride:][:f.headers[i].length]
		f.counted.Lines += int64(bytes.Count(packet, []byte{'\n'})) + 1
		f.counted.Bytes += int64(len(packet))
	}
	f.counted.Datagrams += int64(n)
}

// floorChild is the child process of a floor.
type floorChild struct {
	*child
	udp         netip.AddrPort
	bufferBytes int
	stdin       io.Closer
	stdout      *os.File
	answers     *json.Decoder
}

func startFloor(way string, cpu int) (*floorChild, error) {
	f, opened := &floorChild{}, floorOpened{}
	if err := f.start(way, cpu, &opened); err != nil {
		return nil, err
	}
	f.udp, f.bufferBytes = loopback(opened.Port), opened.BufferBytes
	return f, nil
}

// start starts a floor and reads the address.
func (f *floorChild) start(way string, cpu int, opened any) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), floorEnv+"="+way)
	switch {
	case way == blocking || way == gathering: // two: the scheduler does not know of the floor's sleeps
		cmd.Env = append(cmd.Env, "GOMAXPROCS=2")
	case cpu != anyCPU:
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	if f.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	// The command's own pipe would be closed unread as soon as the child ends.
	var theirs *os.File
	if f.stdout, theirs, err = os.Pipe(); err != nil {
		return errors.Join(err, f.stdin.Close())
	}
	cmd.Stdout = theirs
	f.child, err = startChild(cmd, cpu)
	_ = theirs.Close()
	if err != nil {
		return errors.Join(err, f.stdin.Close(), f.stdout.Close())
	}
	f.answers = json.NewDecoder(f.stdout)
	if err := f.answers.Decode(opened); err != nil {
		return errors.Join(fmt.Errorf("the floor does not say where it listens: %w", err), f.stop())
	}
	return nil
}

// finish ends the count and returns the result.
func (f *floorChild) finish() (counted floorCounted, err error) {
	err = f.conclude(&counted)
	return counted, err
}

// conclude ends the count and reads the result of any floor into counted.
func (f *floorChild) conclude(counted any) error {
	if err := f.stdin.Close(); err != nil {
		return err
	}
	if err := f.answers.Decode(counted); err != nil {
		return fmt.Errorf("the floor does not say what it got: %w", err)
	}
	return nil
}

// stop ends the process by closing the standard input.
func (f *floorChild) stop() error {
	_ = f.stdin.Close() // finish may have closed it
	return errors.Join(f.awaitEnd(), f.stdout.Close())
}

// floorEnv is the environment variable that names a floor. A process that has the variable is a
// floor.
const floorEnv = "SLUICE_LOADTEST_FLOOR"

// The floors: receivers that count line ends, or requests, and do nothing else.
const (
	// gathering lets datagrams gather for 10 ms when there are few, as the server does. It
	// is the least possible cost of a line.
	gathering = "gathering"
	// blocking waits in the kernel, which wakes it for every datagram that arrives meanwhile, as it
	// wakes most servers.
	blocking = "blocking"
	// answering is the floor of HTTP pushes: a server that only answers 200 to every request.
	answering = "answering"
)
