package receiver

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// netYielder lets goroutines run that wait for the network, while a socket that is never empty
// keeps the only processor. Go's scheduler polls the network when it has nothing else to run. With
// a goroutine that is always ready, even one that calls runtime.Gosched, the background monitor
// polls every 10 ms instead, and runs the others up to 10 ms later. netYielder therefore waits in
// Go's poller itself, for an event that it signals at once: the scheduler then polls, and wakes
// all.
type netYielder struct {
	event    *os.File // an eventfd in Go's poller, never read: each addition is an event
	raw      syscall.RawConn
	signaled bool
	read     func(fd uintptr) bool // signal, allocated once
}

func newNetYielder() (*netYielder, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	t := &netYielder{event: os.NewFile(uintptr(fd), "turn")}
	t.read = t.signal
	t.raw, err = t.event.SyscallConn()
	return t, err
}

func (t *netYielder) yield() {
	t.signaled = false
	if t.raw.Read(t.read) != nil { // it is not in the poller
		runtime.Gosched()
	}
}

// signal reports that there is nothing to read, so that the goroutine waits, and adds an event. At
// the second call the wait is over.
func (t *netYielder) signal(fd uintptr) (over bool) {
	if t.signaled {
		return true
	}
	t.signaled = true
	return addOne(int(fd)) != nil
}

// addOne adds one to an eventfd, which wakes a waiting goroutine.
func addOne(fd int) error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := unix.Write(fd, one[:])
	return err
}

func (t *netYielder) close() { _ = t.event.Close() }
