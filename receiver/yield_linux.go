package receiver

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// turn lets goroutines run that wait for the network while a socket that is never empty keeps the only processor. Go's
// scheduler asks the kernel who can go on when it has nothing else to run. With a goroutine that is always ready, also one
// that calls runtime.Gosched, the background monitor asks every 10 ms instead, and lets them run up to 10 ms later. So the
// goroutine waits in Go's poller itself, for what is there as soon as it waits: the scheduler asks at once, and wakes all.
type netYielder struct {
	event    *os.File // an eventfd in Go's poller, in which nobody reads: each addition to it is news
	raw      syscall.RawConn
	signaled bool
	read     func(fd uintptr) bool // ask, made once
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

// ask says that there is nothing to read, so that the goroutine waits, and sees to it that there is news. The second time it is over.
func (t *netYielder) signal(fd uintptr) (over bool) {
	if t.signaled {
		return true
	}
	t.signaled = true
	return addOne(int(fd)) != nil
}

// addOne adds one to an eventfd: news for who waits for it.
func addOne(fd int) error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := unix.Write(fd, one[:])
	return err
}

func (t *netYielder) close() { _ = t.event.Close() }
