package loadtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
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

// queue is the kernel's view of the sockets that are bound to one UDP address.
type queue struct {
	sockets int
	waiting int64 // bytes of memory of unread datagrams
	drops   int64 // datagrams
}

// readQueue reads the kernel's counts, not the server's: the read costs the server nothing, and
// confirms the server's own count.
func readQueue(address netip.AddrPort) (all queue, err error) {
	for _, path := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		q, err := readQueues(path, address)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the kernel may have no IPv6
			return queue{}, err
		}
		all.sockets += q.sockets
		all.waiting += q.waiting
		all.drops += q.drops
	}
	if all.sockets == 0 {
		return queue{}, fmt.Errorf("%w %s", errUnbound, address)
	}
	return all, nil
}

var errUnbound = errors.New("no socket is bound to")

func readQueues(path string, address netip.AddrPort) (queue, error) {
	file, err := os.Open(path)
	if err != nil {
		return queue{}, err
	}
	defer file.Close()
	q, err := parseQueues(file, address)
	if err != nil {
		return queue{}, fmt.Errorf("%s: %w", path, err)
	}
	return q, nil
}

// parseQueues adds up the sockets of an address, including sockets bound to all addresses.
func parseQueues(text io.Reader, address netip.AddrPort) (queue, error) {
	b := address.Addr().As4()
	port := fmt.Sprintf(":%04X", address.Port())
	own := fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:])) + port
	var q queue
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 13 || fields[1] != own && strings.TrimLeft(fields[1], "0") != port {
			continue
		}
		_, waiting, _ := strings.Cut(fields[4], ":")
		bytes, err := strconv.ParseInt(waiting, 16, 64)
		drops, dropsErr := strconv.ParseInt(fields[12], 10, 64)
		if err := errors.Join(err, dropsErr); err != nil {
			return queue{}, err
		}
		q.sockets++
		q.waiting += bytes
		q.drops += drops
	}
	return q, lines.Err()
}

const (
	quietPoll = time.Millisecond
	// quietTimeout bounds the time until a queue is empty. A full queue holds some 100,000 lines.
	quietTimeout = 30 * time.Second
)

// awaitEmpty waits until the queues of the address's sockets are empty.
func awaitEmpty(ctx context.Context, address netip.AddrPort) (queue, error) {
	for deadline := time.Now().Add(quietTimeout); ; {
		q, err := readQueue(address)
		if err != nil || q.waiting == 0 {
			return q, err
		}
		if time.Now().After(deadline) {
			return q, fmt.Errorf("%d bytes still wait at %s after %s: the server does not read", q.waiting,
				address, quietTimeout)
		}
		if err := rest(ctx, quietPoll); err != nil {
			return q, err
		}
	}
}
