package receiver

import (
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch asks the kernel which sources hold data. Datagram sockets are asked directly, so that a
// datagram costs nothing more. Streams are in an epoll instance, because there may be a thousand.
type watch struct {
	polls  atomic.Pointer[[]unix.PollFd] // datagram sockets, and the epoll instance; immutable
	epoll  int                           // 0: there is none
	events []unix.EpollEvent
}

// some reports whether any source holds data. It is a system call that never waits, so Go's
// scheduler need not know of it.
func (w *watch) some() bool {
	polls := w.polls.Load()
	if polls == nil || len(*polls) == 0 {
		return false
	}
	var room [16]unix.PollFd
	return poll(append(room[:0], *polls...)) > 0
}

func poll(all []unix.PollFd) int {
	var now unix.Timespec
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&all[0])), uintptr(len(all)),
			uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		if errno != unix.EINTR {
			return int(n)
		}
	}
}

// ready returns the descriptors of the sources that hold data.
func (w *watch) ready() (fds []int) {
	polls := w.polls.Load()
	if polls == nil || len(*polls) == 0 {
		return nil
	}
	all := slices.Clone(*polls)
	poll(all)
	for i := range all {
		switch fd := int(all[i].Fd); {
		case all[i].Revents == 0:
		case fd == w.epoll:
			n, _ := unix.EpollWait(w.epoll, w.events, 0)
			for j := range max(n, 0) {
				fds = append(fds, int(w.events[j].Fd))
			}
		default:
			fds = append(fds, fd)
		}
	}
	return fds
}

// held is how many bytes a socket holds; of a datagram socket, those of the next datagram.
func (*watch) held(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ) // fails for a listener, which holds none
	return n
}

func (w *watch) add(fd int, datagrams bool) error {
	if datagrams {
		w.setPolls(append(w.others(fd), unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}))
		return nil
	}
	if w.epoll == 0 {
		epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return os.NewSyscallError("epoll_create1", err)
		}
		w.epoll = epoll
		w.setPolls(append(w.others(epoll), unix.PollFd{Fd: int32(epoll), Events: unix.POLLIN}))
	}
	w.events = append(w.events, unix.EpollEvent{}) // room for all at once
	err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

func (w *watch) remove(fd int) {
	polls := w.polls.Load()
	if polls == nil {
		return
	}
	if rest := w.others(fd); len(rest) < len(*polls) {
		w.setPolls(rest)
		return
	}
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil) // fails if the descriptor is closed
	w.events = w.events[:max(len(w.events)-1, 0)]
}

// others returns a copy of polls without a descriptor.
func (w *watch) others(fd int) (all []unix.PollFd) {
	if polls := w.polls.Load(); polls != nil {
		all = slices.Clone(*polls)
	}
	return slices.DeleteFunc(all, func(p unix.PollFd) bool { return int(p.Fd) == fd })
}

func (w *watch) setPolls(all []unix.PollFd) { w.polls.Store(&all) }

func (w *watch) close() {
	w.polls.Store(nil)
	if w.epoll != 0 {
		_ = unix.Close(w.epoll)
		w.epoll = 0
	}
}
