package receiver

import (
	"net"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batchSize = 32
	// Every UDP datagram fits (at most 65,507 bytes); only a unixgram can be longer. Memory becomes
	// resident only as far as datagrams reach.
	packetBytes = 64 << 10
	// packetStride keeps the starts of the buffers off multiples of a power of two: addresses with
	// equal low bits compete for the same few cache lines.
	packetStride = packetBytes + 24*64
)

// packetSocket is a datagram socket outside Go's poller. One goroutine reads it. Others may call
// wake only, and not after close began.
type packetSocket struct {
	fd      int
	address net.Addr
	file    socketFile      // removed by close; may be none
	group   *reuseportGroup // of the first of several sockets; else nil
	gather  time.Duration   // how long datagrams gather
	arrival *arrival
	timer   *parking // waits for the time that datagrams gather; nil: the buffer is too small to wait longer
	took    int      // datagrams since the last tookFew
	yielder *netYielder

	headers []mmsghdr
	vectors []unix.Iovec
	names   []unix.RawSockaddrInet6 // sender of each datagram; nil: senders are not looked up
	memory  []byte                  // outside of Go's heap

	lastDrops  uint32 // the kernel's 32-bit counter, which wraps
	totalDrops uint64
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

func (s *packetSocket) makeBuffers() (err error) {
	s.memory, err = unix.Mmap(-1, 0, batchSize*packetStride, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
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

// enableSenders makes receive return the sender of each datagram. Peers of a Unix socket have no
// address.
func (s *packetSocket) enableSenders() {
	if s.file.path != "" {
		return
	}
	s.names = make([]unix.RawSockaddrInet6, batchSize)
	for i := range s.names {
		s.headers[i].header.Name = (*byte)(unsafe.Pointer(&s.names[i]))
	}
}

// senderAddress is the sender of the i-th datagram of the last receive, without a zone; an
// IPv4-mapped address is IPv4. It is invalid if senders are not looked up, and for a Unix socket.
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
	return netip.IPv6Unspecified() // no holder: an invalid address would mean a Unix socket
}

// receive reads the available datagrams, at most batchSize. The headers are reused from call to
// call: the kernel writes lengths, flags and names. The call never waits for data, so Go's
// scheduler need not know of it. A normal system call would wake Go's monitor thread, which then
// polls for a while: a third of the processor time of a server that receives 200,000 lines a
// second.
func (s *packetSocket) receive() (int, error) {
	for i := range s.names { // the kernel has written how long each was
		s.headers[i].header.Namelen = unix.SizeofSockaddrInet6
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.headers[0])),
			batchSize, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			s.took += int(n)
			return int(n), nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		default:
			return 0, os.NewSyscallError("recvmmsg", errno)
		}
	}
}

// packet is the i-th datagram of the last receive, valid until the next one, and whether it was
// truncated.
func (s *packetSocket) packet(i int) (packet []byte, cut bool) {
	at := i * packetStride
	return s.memory[at : at+int(s.headers[i].length)], s.headers[i].header.Flags&unix.MSG_TRUNC != 0
}

// descriptor returns the socket's file descriptor.
func (s *packetSocket) descriptor() int { return s.fd }

// gatherWait lets datagrams gather.
func (s *packetSocket) gatherWait() { time.Sleep(s.gather + pollerMargin) }

// gatherFew is gatherWait where a wait of twice the time is harmless: it costs half of the wake-ups.
func (s *packetSocket) gatherFew() {
	if s.timer == nil || s.timer.wait() != nil {
		s.gatherWait()
	}
}

// tookFew reports whether few datagrams have come since the last call.
func (s *packetSocket) tookFew() bool {
	few := s.took < fewDatagrams
	s.took = 0
	return few
}

// fewDatagrams of one gathering are a tenth of what the smallest buffer holds whose datagrams gather for mostGather.
const fewDatagrams = 1024

// pollerMargin saves a wake-up. Go's poller waits in whole milliseconds, rounded down: shortly
// before the end of a sleep of exactly 10 ms it would wake up, and wait once more. The kernel ends
// such a wait up to 50 µs late.
const pollerMargin = 50 * time.Microsecond

// wait waits until there is data, or wake was called.
func (s *packetSocket) wait() { s.arrival.wait() }

// overloaded reports that the goroutine doesn't keep up with the socket.
func (s *packetSocket) overloaded() {
	if s.group != nil {
		s.group.spreadOut()
	}
}

// yield lets goroutines run that wait for the network.
func (s *packetSocket) yield() { s.yielder.yield() }

// wake ends wait, and every later wait.
func (s *packetSocket) wake() { s.arrival.wake() }

// stopReceiving closes the socket to new datagrams, so that draining ends. For UDP, a filter that
// accepts nothing turns further datagrams into kernel drops: sent = received + dropped holds to the
// end. Senders to a Unix socket get an error.
func (s *packetSocket) stopReceiving() {
	if s.file.path != "" {
		_ = unix.Shutdown(s.fd, unix.SHUT_RD)
		return
	}
	none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	program := unix.SockFprog{Len: 1, Filter: &none}
	_ = unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
}

// drops is the number of datagrams that the kernel dropped at the socket. SO_MEMINFO is readable at
// any time; SO_RXQ_OVFL comes with the next datagram only. Like receive, it does not wake Go's monitor thread.
func (s *packetSocket) drops() uint64 {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno == 0 {
		now := info[unix.SK_MEMINFO_DROPS]
		s.totalDrops += uint64(now - s.lastDrops)
		s.lastDrops = now
	}
	return s.totalDrops
}

// close frees everything, also of a partly opened socket. A second close does nothing: by then the
// descriptors may have been reused.
func (s *packetSocket) close() {
	if s.file.path != "" {
		s.file.remove()
	}
	if s.arrival != nil {
		s.arrival.close()
	}
	if s.yielder != nil {
		s.yielder.close()
	}
	if s.timer != nil {
		s.timer.close()
	}
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
	}
	if s.memory != nil {
		_ = unix.Munmap(s.memory)
	}
	*s = packetSocket{fd: -1}
}
