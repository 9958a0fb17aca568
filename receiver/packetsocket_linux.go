package receiver

import (
	"net"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batchSize = 32
	// Every UDP datagram fits (65,507 bytes at most); only a unixgram can be longer. Memory is touched, and
	// so resident, only as far as datagrams reach.
	packetBytes = 64 << 10
	// packetStride sets the buffers' beginnings apart by more than a power of two, for those that share
	// their low address bits share a few cache lines, whatever the cache's size.
	packetStride = packetBytes + 24*64
)

// packetSocket is a datagram socket outside Go's poller. One goroutine reads it; only wake may be called
// by another, and not once close began.
type packetSocket struct {
	fd, stop int // stop is an eventfd
	address  net.Addr
	path     string // the socket's file, to be removed; empty: none
	yielder  *netYielder

	headers []mmsghdr
	vectors []unix.Iovec
	names   []unix.RawSockaddrInet6 // who sent each datagram; nil: nobody asks
	memory  []byte                  // outside Go's heap

	lastDrops  uint32 // the kernel counts in 32 bits and wraps
	totalDrops uint64
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

func (s *packetSocket) makeBuffers() (err error) {
	s.memory, err = unix.Mmap(-1, 0, batchSize*packetStride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.headers = make([]mmsghdr, batchSize)
	s.vectors = make([]unix.Iovec, batchSize)
	for i := range s.headers {
		s.vectors[i].Base = &s.memory[i*packetStride]
		s.vectors[i].SetLen(packetBytes)
		s.headers[i].header.Iov = &s.vectors[i]
		s.headers[i].header.SetIovlen(1)
	}
	return nil
}

// askNames makes receive ask who sent each datagram. A Unix socket's peers have no address.
func (s *packetSocket) enableSenders() {
	if s.path != "" {
		return
	}
	s.names = make([]unix.RawSockaddrInet6, batchSize)
	for i := range s.names {
		s.headers[i].header.Name = (*byte)(unsafe.Pointer(&s.names[i]))
	}
}

// from is who sent the i-th datagram of the last receive: IPv4 where it is that, without a zone. Not valid: nobody
// asked, or it came over a Unix socket.
func (s *packetSocket) senderAddress(i int) netip.Addr {
	if s.names == nil {
		return netip.Addr{}
	}
	switch name := &s.names[i]; name.Family {
	case unix.AF_INET:
		return netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr)
	case unix.AF_INET6:
		return netip.AddrFrom16(name.Addr).Unmap()
	}
	return netip.IPv6Unspecified() // nobody's: what has no name must not pass for a Unix socket's
}

// receive reads what is there, up to batchSize datagrams. The headers stay as they are from call to call:
// the kernel writes lengths and flags, and the names where they are asked for. It never waits for data, so Go's scheduler need not
// know of it: being told of a system call wakes Go's monitor thread, which then looks about for a while (a third of the
// processor time of a server that takes 200,000 lines a second).
func (s *packetSocket) receive() (int, error) {
	for i := range s.names { // the kernel has written how long each was
		s.headers[i].header.Namelen = unix.SizeofSockaddrInet6
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.headers[0])),
			batchSize, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		default:
			return 0, os.NewSyscallError("recvmmsg", errno)
		}
	}
}

// packet is the i-th datagram of the last receive, until the next one, and whether its end was cut off.
func (s *packetSocket) packet(i int) (packet []byte, cut bool) {
	at := i * packetStride
	return s.memory[at : at+int(s.headers[i].length)], s.headers[i].header.Flags&unix.MSG_TRUNC != 0
}

// wait blocks until there is something to read, or wake was called.
func (s *packetSocket) wait() {
	ready := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Ppoll(ready, nil, nil); err != unix.EINTR {
			return
		}
	}
}

// yield lets goroutines run that wait for the network.
func (s *packetSocket) yield() { s.yielder.yield() }

// wake ends wait, and every later one.
func (s *packetSocket) wake() {
	_ = addOne(s.stop)
}

// seal shuts the entrance, so that draining comes to an end. What UDP datagrams still come in, a filter
// that takes none turns into kernel drops: sent = received + dropped holds to the last. Unix senders get
// an error.
func (s *packetSocket) stopReceiving() {
	if s.path != "" {
		_ = unix.Shutdown(s.fd, unix.SHUT_RD)
		return
	}
	none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	program := unix.SockFprog{Len: 1, Filter: &none}
	_ = unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
}

// drops is how many datagrams the kernel dropped at this socket. SO_MEMINFO says it at any time, where
// SO_RXQ_OVFL tells only with the next datagram.
func (s *packetSocket) drops() uint64 {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno == 0 {
		now := info[unix.SK_MEMINFO_DROPS]
		s.totalDrops += uint64(now - s.lastDrops)
		s.lastDrops = now
	}
	return s.totalDrops
}

// close gives everything back, also of a socket that was not opened whole. A second close does nothing:
// by then the descriptors may be somebody else's.
func (s *packetSocket) close() {
	if s.path != "" {
		_ = os.Remove(s.path)
	}
	for _, fd := range []int{s.fd, s.stop} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if s.yielder != nil {
		s.yielder.close()
	}
	if s.memory != nil {
		_ = unix.Munmap(s.memory)
	}
	*s = packetSocket{fd: -1, stop: -1}
}
