package receiver

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// parking is a place for one goroutine to wait for an event of a descriptor, in Go's poller. A
// waiting goroutine holds no thread, and the thread that waits for the poller runs it: no other
// thread wakes. The descriptor is never read, because each event wakes the goroutine anew (the
// poller is edge-triggered).
type parking struct {
	file *os.File
	raw  syscall.RawConn
	// arm makes the descriptor report events. It runs when the wait has begun, so no event is
	// missed.
	arm     func() error
	waiting bool
	read    func(fd uintptr) bool // begin, allocated once
}

// park takes over a descriptor that was made non-blocking.
func park(fd int, name string, arm func() error) (*parking, error) {
	p := &parking{file: os.NewFile(uintptr(fd), name), arm: arm}
	p.read = p.begin
	var err error
	p.raw, err = p.file.SyscallConn()
	return p, err
}

// wait waits for the next event. It fails with arm's error, or with os.ErrDeadlineExceeded.
func (p *parking) wait() error {
	p.waiting = false
	return p.raw.Read(p.read)
}

// begin reports at the first call that there is nothing to read, so the goroutine waits. At the
// second call the wait is over.
func (p *parking) begin(uintptr) (over bool) {
	if p.waiting {
		return true
	}
	p.waiting = true
	return p.arm() != nil
}

func (p *parking) close() { _ = p.file.Close() }

// newKernelTimer returns a parking whose waits take d, by a timer of the kernel. Go's monitor thread sleeps until the
// next of Go's own timers, and wakes beside the goroutine that sleeps by it: at everyday rates it was half of the
// wake-ups. While other goroutines keep all processors busy, Go's poller looks every 10 ms, so a wait may take that much
// longer.
func newKernelTimer(d time.Duration) (*parking, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	return park(fd, "timer", func() error { return unix.TimerfdSettime(fd, 0, &once, nil) })
}

// An arrival is a wait for a socket's next datagram. The socket itself must not be in Go's poller:
// each datagram would wake it. It is in an epoll instance that reports events only during a wait,
// and that instance is in Go's poller.
type arrival struct {
	*parking
	epoll, socket int
}

func newArrival(socket int) (*arrival, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	a := &arrival{epoll: epoll, socket: socket}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, socket, &unix.EpollEvent{}); err != nil {
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // or os.File keeps it out of the poller
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	a.parking, err = park(epoll, "arrival", func() error { return a.report(unix.EPOLLIN | unix.EPOLLONESHOT) })
	return a, err
}

// wait waits for data, or returns at once if there is some.
func (a *arrival) wait() {
	_ = a.parking.wait()
	if !a.collect() { // wake ended the wait, or another goroutine has read the data
		_ = a.report(0)
		a.collect()
	}
}

// collect takes the socket off the epoll instance's list of ready descriptors, and disarms it if there
// was data. EPOLL_CTL_MOD signals data only for a descriptor that is not on that list (Linux,
// fs/eventpoll.c, ep_modify), so an entry left there would make the next wait miss what has arrived.
func (a *arrival) collect() bool {
	var event unix.EpollEvent // RawSyscall6: the call never waits, and need not wake Go's monitor thread
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(a.epoll), uintptr(unsafe.Pointer(&event)), 1, 0, 0, 0)
	return errno == 0 && n > 0
}

// wake ends wait, and every later wait. Any goroutine may call it.
func (a *arrival) wake() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) }

func (a *arrival) report(events uint32) error {
	return unix.EpollCtl(a.epoll, unix.EPOLL_CTL_MOD, a.socket, &unix.EpollEvent{Events: events})
}
