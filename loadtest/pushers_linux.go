package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pushers push over keep-alive connections with one thread and epoll. A push is a write of
// prepared bytes and a search for the answer's length, without an HTTP client, so that the server
// is the limit.
type pushers struct {
	epoll  int
	all    []*pusher
	idle   []*pusher
	events []unix.EpollEvent
	groups int // number of groups, pushed to in turn
	book   *pushTotals
}

// pusher is one connection.
type pusher struct {
	fd      int
	request *pushRequest
	due     time.Time // when the push under way was due
	in      [4 << 10]byte
	got     int
}

func openPushers(address string, connections, groups int, book *pushTotals) (_ *pushers, err error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	p := &pushers{groups: groups, book: book, events: make([]unix.EpollEvent, connections)}
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	for range connections {
		if err := p.connect(to); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

func (p *pushers) connect(to netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	one := &pusher{fd: fd, request: newPushRequest()}
	p.all = append(p.all, one)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return os.NewSyscallError("connect", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(len(p.all) - 1)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.idle = append(p.idle, one)
	return nil
}

func (p *pushers) close() error {
	err := os.NewSyscallError("close", unix.Close(p.epoll))
	for _, pusher := range p.all {
		err = errors.Join(err, os.NewSyscallError("close", unix.Close(pusher.fd)))
	}
	return err
}

// push performs a number of pushes, at most perSecond. If perSecond is 0, each connection sends the
// next push after an answer. With a rate, the time of a push starts when the push was due, so a
// server that stalls all connections shows in the times.
func (p *pushers) push(ctx context.Context, pushes int, perSecond float64) (durations, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Sleeps end within a microsecond instead of the usual 50. An error is ignored: times would
	// only be longer.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // resets the default

	times := make(durations, 0, pushes)
	due := func(push int) time.Time { return time.Time{} }
	if start := time.Now(); perSecond > 0 {
		due = func(push int) time.Time {
			return start.Add(time.Duration(float64(push) / perSecond * float64(time.Second)))
		}
	}
	for sent := 0; len(times) < pushes; {
		for now := time.Now(); len(p.idle) > 0 && sent < pushes && !due(sent).After(now); sent++ {
			if err := p.send(due(sent), now); err != nil {
				return nil, err
			}
		}
		wait := longestSleep
		if sent < pushes && len(p.idle) > 0 {
			wait = min(wait, time.Until(due(sent)))
		}
		answered, err := p.await(wait)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for _, pusher := range answered {
			times = append(times, now.Sub(pusher.due))
		}
		if len(answered) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return times, ctx.Err()
}

// longestSleep bounds the sleep between two checks of the context.
const longestSleep = 100 * time.Millisecond

// send sends the next push on an idle connection.
func (p *pushers) send(due, now time.Time) error {
	pusher := p.idle[0]
	p.idle = p.idle[:copy(p.idle, p.idle[1:])]
	if pusher.due = due; due.IsZero() {
		pusher.due = now
	}
	request := pusher.request.of(p.book.next(p.groups))
	n, err := unix.Write(pusher.fd, request)
	if err == nil && n < len(request) {
		return fmt.Errorf("send a push: the socket took %d of %d bytes", n, len(request))
	}
	return os.NewSyscallError("write", err)
}

// await reads answers and returns the connections that are idle again.
func (p *pushers) await(wait time.Duration) (answered []*pusher, err error) {
	timeout := unix.NsecToTimespec(max(int64(wait), 0))
	ready := []unix.PollFd{{Fd: int32(p.epoll), Events: unix.POLLIN}}
	if n, err := unix.Ppoll(ready, &timeout, nil); err == unix.EINTR || err == nil && n == 0 {
		return nil, nil
	} else if err != nil {
		return nil, os.NewSyscallError("ppoll", err)
	}
	n, err := unix.EpollWait(p.epoll, p.events, 0)
	if err != nil && err != unix.EINTR {
		return nil, os.NewSyscallError("epoll_wait", err)
	}
	before := len(p.idle)
	for _, event := range p.events[:max(n, 0)] {
		one := p.all[event.Fd]
		done, err := one.read()
		if err != nil {
			return nil, err
		}
		if done {
			p.idle = append(p.idle, one)
		}
	}
	return p.idle[before:], nil
}

// read reports whether the answer is complete. An answer other than 200 is an error.
func (p *pusher) read() (bool, error) {
	n, err := unix.Read(p.fd, p.in[p.got:])
	switch {
	case err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("read", err)
	case n == 0:
		return false, errors.New("the server closed the connection during a push")
	}
	p.got += n
	length, whole := answerLength(p.in[:p.got])
	if !whole {
		return false, nil
	}
	answer := p.in[:p.got]
	p.got = 0
	if length != len(answer) || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		return false, fmt.Errorf("answer to a push: %.300q", answer)
	}
	return true, nil
}

var (
	headersEnd    = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// answerLength returns the length of an answer, and whether the length is known and the answer
// complete.
func answerLength(answer []byte) (length int, whole bool) {
	end := bytes.Index(answer, headersEnd)
	if end < 0 {
		return 0, false
	}
	length = end + len(headersEnd)
	if at := bytes.Index(answer[:end+2], contentLength); at >= 0 {
		digits := answer[at+len(contentLength) : end+2]
		n, err := strconv.Atoi(string(digits[:bytes.IndexByte(digits, '\r')]))
		if err != nil {
			return 0, true // no answer is that short, so the caller reports an error
		}
		length += n
	}
	return length, len(answer) >= length
}

// pushRequest is one push of a batch job: three families with # TYPE lines. The label "instance"
// selects the group. The request is prepared once; a push fills in the group and the number, both
// of constant length.
type pushRequest struct {
	text    []byte
	body    int // length of the body
	group   int // offset of the group's digits
	numbers []int
}

// samplesAPush is the number of samples of a pushRequest.
const samplesAPush = 3

const (
	groupDigits  = 7
	numberDigits = 10
)

// newPushRequest prepares a request with space for the group and the number.
func newPushRequest() *pushRequest {
	group, number := strings.Repeat("G", groupDigits), strings.Repeat("N", numberDigits)
	body := "# TYPE batch_records_total counter\nbatch_records_total{stage=\"load\"} " + number + "\n" +
		"# TYPE batch_position gauge\nbatch_position " + number + "\n" +
		"# TYPE batch_duration_seconds gauge\nbatch_duration_seconds{stage=\"load\"} 12.75\n"
	text := fmt.Sprintf("PUT /metrics/job/batch/instance/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain; version=0.0.4\r\n"+
		"Content-Length: %d\r\n\r\n%s", group, len(body), body)
	r := &pushRequest{text: []byte(text), body: len(body), group: strings.Index(text, group)}
	for at := strings.Index(text, number); at >= 0; {
		r.numbers = append(r.numbers, at)
		next := strings.Index(text[at+1:], number)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return r
}

// of returns the request that pushes a number to a group; it is valid until the next call.
func (r *pushRequest) of(group int, number int64) []byte {
	putDigits(r.text[r.group:r.group+groupDigits], int64(group))
	for _, at := range r.numbers {
		putDigits(r.text[at:at+numberDigits], number)
	}
	return r.text
}

func putDigits(into []byte, v int64) {
	for i := len(into) - 1; i >= 0; i-- {
		into[i] = byte('0' + v%10)
		v /= 10
	}
}

// pushTotals are the last number pushed to each group, and the number of pushes.
type pushTotals struct {
	pushed int64
	last   []int64 // by group
}

// firstNumber is the first pushed number; all numbers have the same number of digits.
const firstNumber = 1_000_000_000

// next counts a push, and returns the group, in turn, and the number to push.
func (b *pushTotals) next(groups int) (group int, number int64) {
	if len(b.last) < groups {
		b.last = append(b.last, make([]int64, groups-len(b.last))...)
	}
	group, number = int(b.pushed%int64(groups)), firstNumber+b.pushed
	b.last[group] = number
	b.pushed++
	return group, number
}

// sum returns the sum over all groups.
func (b *pushTotals) sum() (sum int64) {
	for _, number := range b.last {
		sum += number
	}
	return sum
}
