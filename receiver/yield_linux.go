package receiver

import (
	"encoding/binary"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// netYielder lets goroutines run that wait for the network, while a socket that is never empty
// keeps the only processor. Go's scheduler polls the network when it has nothing else to run. With
// a goroutine that is always ready, even one that calls runtime.Gosched, the background monitor
// polls every 10 ms instead, and runs the others up to 10 ms later. netYielder therefore waits in
// Go's poller itself, for an event that it signals at once: the scheduler then polls, and wakes
// all.
type netYielder struct{ *parking }

func newNetYielder() (*netYielder, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	p, err := park(fd, "turn", func() error { return addOne(fd) })
	return &netYielder{p}, err
}

func (y *netYielder) yield() {
	if y.wait() != nil { // it is not in the poller
		runtime.Gosched()
	}
}

// addOne adds one to an eventfd, which is an event.
func addOne(fd int) error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := unix.Write(fd, one[:])
	return err
}
