//go:build unix && !linux

package receiver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	batchSize   = 1
	packetBytes = 64 << 10
)

// packetSocket is a datagram socket without recvmmsg, for trying Sluice out: one datagram per
// system call, through Go's poller. It does not know the kernel's drops.
type packetSocket struct {
	conn    deadlineConn
	raw     syscall.RawConn
	address net.Addr
	file    socketFile

	memory []byte
	length int
	names  bool // senders are looked up
	sender netip.Addr
}

type deadlineConn interface {
	net.Conn
	syscall.Conn
	SetReadBuffer(bytes int) error
}

func openPackets(l Listener, logger *slog.Logger) ([]*packetSocket, error) {
	if l.Sockets > 1 {
		return nil, fmt.Errorf("sockets %d: one UDP address can have several on Linux only", l.Sockets)
	}
	s := &packetSocket{memory: make([]byte, packetBytes+1)}
	conn, err := s.listen(l)
	if err != nil {
		return nil, err
	}
	s.conn, s.address = conn, conn.LocalAddr()
	if s.raw, err = conn.SyscallConn(); err != nil {
		s.close()
		return nil, err
	}
	if l.ReadBuffer > 0 {
		if err := conn.SetReadBuffer(l.ReadBuffer); err != nil {
			logger.Warn("socket buffer is smaller than requested: the kernel may drop bursts",
				"listener", l.String(), "asked_bytes", l.ReadBuffer, "error", err)
		}
	}
	return []*packetSocket{s}, nil
}

func (s *packetSocket) listen(l Listener) (deadlineConn, error) {
	if l.Network == "udp" {
		addr, err := net.ResolveUDPAddr("udp", l.Address)
		if err != nil {
			return nil, err
		}
		return net.ListenUDP("udp", addr)
	}
	at, put, err := l.place()
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: at})
	if err != nil {
		return nil, err
	}
	if s.file, err = put(); err != nil {
		s.file.remove()
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func chmodSocket(path string) error {
	return unix.Fchmodat(unix.AT_FDCWD, path, socketMode, unix.AT_SYMLINK_NOFOLLOW)
}

// receive reads one datagram, if there is one.
func (s *packetSocket) receive() (n int, err error) {
	controlErr := s.raw.Control(func(fd uintptr) {
		var from unix.Sockaddr
		s.length, from, err = unix.Recvfrom(int(fd), s.memory, unix.MSG_DONTWAIT)
		if s.names && s.file.path == "" {
			s.sender = addressOf(from)
		}
	})
	switch {
	case controlErr != nil:
		return 0, controlErr
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("recvfrom", err)
	}
	return 1, nil
}

// enableSenders makes receive return the sender of each datagram.
func (s *packetSocket) enableSenders() { s.names = true }

// senderAddress is the sender of the last datagram. It is invalid if senders are not looked up, and
// for a Unix socket.
func (s *packetSocket) senderAddress(int) netip.Addr { return s.sender }

func addressOf(from unix.Sockaddr) netip.Addr {
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap()
	}
	return netip.IPv6Unspecified() // no holder: an invalid address would mean a Unix socket
}

// packet is the datagram of the last receive, valid until the next one, and whether it was
// truncated.
func (s *packetSocket) packet(int) (packet []byte, cut bool) {
	return s.memory[:min(s.length, packetBytes)], s.length > packetBytes
}

// descriptor returns the socket's file descriptor.
func (s *packetSocket) descriptor() (fd int) {
	_ = s.raw.Control(func(number uintptr) { fd = int(number) })
	return fd
}

// gatherWait lets datagrams gather.
func (s *packetSocket) gatherWait() { time.Sleep(time.Millisecond) }

func (s *packetSocket) gatherFew() { s.gatherWait() }

func (s *packetSocket) tookFew() bool { return false }

// wait blocks until there is data, or wake was called.
func (s *packetSocket) wait() {
	_ = s.raw.Read(func(fd uintptr) bool {
		var peek [1]byte
		_, _, err := unix.Recvfrom(int(fd), peek[:], unix.MSG_DONTWAIT|unix.MSG_PEEK)
		return err != unix.EAGAIN
	})
}

// overloaded does nothing here: there is one socket.
func (s *packetSocket) overloaded() {}

// yield lets other goroutines run.
func (s *packetSocket) yield() { runtime.Gosched() }

// wake ends wait, and every later wait.
func (s *packetSocket) wake() { _ = s.conn.SetReadDeadline(time.Now()) }

// stopReceiving does nothing here: the drain timeout bounds the draining.
func (s *packetSocket) stopReceiving() {}

func (s *packetSocket) drops() uint64 { return 0 }

func (s *packetSocket) close() {
	if s.file.path != "" {
		s.file.remove()
	}
	_ = s.conn.Close()
}
