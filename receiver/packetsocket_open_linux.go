package receiver

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// openPackets opens the listener's sockets. Several sockets can share a UDP address. The first is
// bound alone, which fails if any other process holds the address, even one that would share it.
// Only then is the address opened to the others.
func openPackets(l Listener, logger *slog.Logger) ([]*packetSocket, error) {
	var sockets []*packetSocket
	for i := range l.sockets() {
		s, err := openPacket(l, i > 0, logger)
		if err != nil {
			for _, open := range sockets {
				open.close()
			}
			return nil, err
		}
		sockets = append(sockets, s)
		if udp, ok := s.address.(*net.UDPAddr); ok && i == 0 { // the system may have picked the port
			host, _, _ := net.SplitHostPort(l.Address)
			l.Address = net.JoinHostPort(host, strconv.Itoa(udp.Port))
		}
	}
	if len(sockets) > 1 {
		sockets[0].group = &reuseportGroup{fd: sockets[0].fd}
		sockets[0].group.concentrate()
	}
	return sockets, nil
}

func openPacket(l Listener, shared bool, logger *slog.Logger) (*packetSocket, error) {
	s := &packetSocket{fd: -1, gather: leastGather}
	if err := s.open(l, shared, logger); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *packetSocket) open(l Listener, shared bool, logger *slog.Logger) (err error) {
	if l.Network == "unixgram" {
		err = s.bindUnix(l)
	} else {
		err = s.bindUDP(l, shared)
	}
	if err != nil {
		return err
	}
	if l.ReadBuffer > 0 {
		s.setReadBuffer(l, logger)
	}
	if l.Network == "udp" {
		s.gather = s.gatherTime()
	}
	if s.gather == mostGather {
		if s.timer, err = newKernelTimer(s.gather); err != nil {
			return err
		}
	}
	if s.arrival, err = newArrival(s.fd); err != nil {
		return err
	}
	if s.yielder, err = newNetYielder(); err != nil {
		return err
	}
	return s.makeBuffers()
}

func (s *packetSocket) bindUDP(l Listener, shared bool) error {
	addr, err := net.ResolveUDPAddr("udp", l.Address)
	if err != nil {
		return err
	}
	if s.fd, err = s.bindFamily(addr, shared); err != nil {
		return err
	}
	if l.sockets() > 1 && !shared {
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err != nil {
		return os.NewSyscallError("setsockopt SO_REUSEPORT", err)
	}
	bound, err := unix.Getsockname(s.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	s.address = udpAddr(bound)
	return nil
}

// bindFamily binds to an address of its family. The unspecified address is bound by IPv6 for both
// families or, on a machine without IPv6, by IPv4.
func (s *packetSocket) bindFamily(addr *net.UDPAddr, shared bool) (int, error) {
	if ip := addr.IP.To4(); ip != nil {
		return bindDatagram(&unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)}, unix.AF_INET, shared)
	}
	to := &unix.SockaddrInet6{Port: addr.Port}
	if addr.IP != nil {
		to.Addr = [16]byte(addr.IP.To16())
	}
	if addr.Zone != "" {
		link, err := net.InterfaceByName(addr.Zone)
		if err != nil {
			return -1, err
		}
		to.ZoneId = uint32(link.Index)
	}
	fd, err := bindDatagram(to, unix.AF_INET6, shared)
	if err != nil && addr.IP == nil && (err == unix.EAFNOSUPPORT || err == unix.EADDRNOTAVAIL) {
		return bindDatagram(&unix.SockaddrInet4{Port: addr.Port}, unix.AF_INET, shared)
	}
	return fd, err
}

func bindDatagram(to unix.Sockaddr, family int, shared bool) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if any6, ok := to.(*unix.SockaddrInet6); ok && any6.Addr == [16]byte{} {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil && shared {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err == nil {
		err = unix.Bind(fd, to)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (s *packetSocket) bindUnix(l Listener) error {
	at, put, err := l.place()
	if err != nil {
		return err
	}
	fd, err := bindDatagram(&unix.SockaddrUnix{Name: at}, unix.AF_UNIX, false)
	if err != nil {
		return err
	}
	s.fd, s.address = fd, &net.UnixAddr{Net: "unixgram", Name: l.Address}
	s.file, err = put()
	return err
}

// chmodSocket opens the file by its name, without following a link, and sets the mode of what is
// open: fchmodat with AT_SYMLINK_NOFOLLOW needs Linux 6.6.
func chmodSocket(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	var found unix.Stat_t
	if err := unix.Fstat(fd, &found); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if found.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errReplaced(path)
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), socketMode)
}

func udpAddr(bound unix.Sockaddr) *net.UDPAddr {
	switch a := bound.(type) {
	case *unix.SockaddrInet4:
		return &net.UDPAddr{IP: a.Addr[:], Port: a.Port}
	case *unix.SockaddrInet6:
		return &net.UDPAddr{IP: a.Addr[:], Port: a.Port}
	}
	return &net.UDPAddr{}
}

// setReadBuffer first tries the privileged option, which exceeds net.core.rmem_max.
func (s *packetSocket) setReadBuffer(l Listener, logger *slog.Logger) {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, l.ReadBuffer) == nil {
		return
	}
	err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, l.ReadBuffer)
	if got := s.readBuffer(); err != nil || got < l.ReadBuffer {
		logger.Warn("socket buffer is smaller than requested: the kernel may drop bursts; raise net.core.rmem_max",
			"listener", l.String(), "asked_bytes", l.ReadBuffer, "got_bytes", got)
	}
}

// How long datagrams gather. The receive buffer must hold what the kernel delivers meanwhile: a
// MiB holds 2,700 datagrams of one line, so a buffer loses nothing up to a million a second.
const (
	leastGather  = time.Millisecond
	mostGather   = 10 * time.Millisecond
	gatherPerMiB = 2500 * time.Microsecond
)

// gatherTime is how long datagrams may gather in the socket's buffer.
func (s *packetSocket) gatherTime() time.Duration {
	return min(max(time.Duration(s.readBuffer())*gatherPerMiB>>20, leastGather), mostGather)
}

// readBuffer is the size of the socket's receive buffer. The kernel reports twice of what it was
// asked for.
func (s *packetSocket) readBuffer() int {
	got, _ := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return got / 2
}
