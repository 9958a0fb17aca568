package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
