package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flood sends prepared datagrams with sendmmsg, from several connected sockets in turn.
type flood struct {
	*floodLoad
	fds []int
	at  int // index of the next socket
}

// floodLoad is the prepared load of a scenario.
type floodLoad struct {
	first prepared // the warm-up
	rest  prepared
	per   int // lines in each datagram of rest
}

func newFloodLoad(s Scenario) *floodLoad {
	return &floodLoad{first: prepare(s.warmUp()), rest: prepare(s.load()), per: s.PerDatagram}
}

// prepared are datagrams with their headers: vectors hold the payloads, headers the vectors.
type prepared struct {
	lines   []int
	headers []mmsghdr
	vectors []unix.Iovec
}

// mmsghdr is struct mmsghdr of sendmmsg(2) and recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

func newFlood(load *floodLoad, sockets int, to netip.AddrPort) (*flood, error) {
	f := &flood{floodLoad: load}
	for range max(sockets, 1) {
		fd, err := connected(to)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.fds = append(f.fds, fd)
	}
	return f, nil
}

func connected(to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		_ = unix.Close(fd)
		return 0, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// warmUpLook is the number of datagrams between two reads of the receiver's queue.
const warmUpLook = 64

func prepare(d datagrams) prepared {
	p := prepared{lines: d.lines, headers: make([]mmsghdr, len(d.packets)), vectors: make([]unix.Iovec, len(d.packets))}
	for i, packet := range d.packets {
		p.vectors[i].Base = &packet[0]
		p.vectors[i].SetLen(len(packet))
		p.headers[i].header.Iov = &p.vectors[i]
		p.headers[i].header.SetIovlen(1)
	}
	return p
}

func (f *flood) warmUp(ctx context.Context, how warmUp) (packing, error) {
	sent, pace, total := packing{}, newPace(how.perSecond), int64(0)
	for i := 0; i < len(f.first.headers) && total < int64(how.lines); {
		if i%how.look == 0 {
			if err := how.wait(ctx); err != nil {
				return sent, err
			}
		}
		n, err := f.send(f.first.headers[i:min(i+pace.burst(f.per), i-i%how.look+how.look, len(f.first.headers))])
		for _, lines := range f.first.lines[i : i+n] {
			sent.add(lines, 1)
			total += int64(lines)
		}
		if err == nil {
			err = pace.after(ctx, total)
		}
		if err != nil {
			return sent, err
		}
		i += n
	}
	return sent, nil
}

func (f *flood) load(ctx context.Context, lines int64, perSecond int) (packing, error) {
	all := f.rest.headers
	pace := newPace(perSecond)
	want, done := lines/int64(f.per), int64(0)
	var err error
	for at := 0; done < want && err == nil; {
		n := min(pace.burst(f.per), len(all)-at, int(min(want-done, maxBurst)))
		n, err = f.send(all[at : at+n])
		done += int64(n)
		if at += n; at == len(all) {
			at = 0
		}
		if err == nil {
			err = pace.after(ctx, done*int64(f.per))
		}
	}
	return packing{f.per: done}, err
}

// send returns the number of datagrams that the kernel took.
func (f *flood) send(headers []mmsghdr) (int, error) {
	f.at = (f.at + 1) % len(f.fds)
	for {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(f.fds[f.at]), uintptr(unsafe.Pointer(&headers[0])),
			uintptr(len(headers)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, fmt.Errorf("send to the server: %w", os.NewSyscallError("sendmmsg", errno))
		}
	}
}

func (f *flood) close() (err error) {
	for _, fd := range f.fds {
		err = errors.Join(err, os.NewSyscallError("close", unix.Close(fd)))
	}
	return err
}
