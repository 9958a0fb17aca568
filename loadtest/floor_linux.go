package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The floor speaks two lines of JSON on its standard output: where it listens, and, once its standard
// input ended, what it got.
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
	// floorStride keeps the beginnings of the buffers off the same cache sets.
	floorStride = floorPacket + 24*64
	// floorGather is the sleep when a batch was not full: what gathers meanwhile shares a system call.
	floorGather = time.Millisecond
	// socketBuffer is what the server asks for by default.
	socketBuffer = 4 << 20
)

// Floor is the other process of the measurement: it takes datagrams and counts their lines until in ends
// or ctx does.
func Floor(ctx context.Context, in io.Reader, out io.Writer) error {
	f, err := openFloor()
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
	// It ends with the process at the latest: a read from a pipe cannot be interrupted.
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop.Store(true)
	}()
	if err := f.run(&stop); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(f.counted)
}

type floor struct {
	fd, bufferBytes int
	headers         []mmsghdr
	vectors         []unix.Iovec
	memory          []byte
	counted         floorCounted
}

func openFloor() (_ *floor, err error) {
	f := &floor{memory: make([]byte, floorBatch*floorStride)}
	f.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
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
		return 0, fmt.Errorf("bound to %T: want IPv4", bound)
	}
	return to.Port, nil
}

func (f *floor) run(stop *atomic.Bool) error {
	for !stop.Load() {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(f.fd), uintptr(unsafe.Pointer(&f.headers[0])),
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
			time.Sleep(floorGather)
		}
	}
	return nil
}

func (f *floor) count(n int) {
	for i := range n {
		packet := f.memory[i*floorStride:][:f.headers[i].length]
		f.counted.Lines += int64(bytes.Count(packet, []byte{'\n'})) + 1
		f.counted.Bytes += int64(len(packet))
	}
	f.counted.Datagrams += int64(n)
}
