package connlimit

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// peer is a connection of which only the remote address matters.
type peer struct {
	net.Conn
	ip string
}

func (p peer) RemoteAddr() net.Addr {
	if p.ip == "" {
		return &net.UnixAddr{}
	}
	return &net.TCPAddr{IP: net.ParseIP(p.ip), Port: 1}
}

func limiter(limits Limits) *Limiter { return New("test", limits, slog.New(slog.DiscardHandler)) }

func enter(t *testing.T, l *Limiter, ip string) (m, yielded *Member) {
	t.Helper()
	time.Sleep(time.Millisecond)
	m, yielded, err := l.enter(peer{ip: ip})
	if err != nil {
		t.Fatal(err)
	}
	return m, yielded
}

// The member that has been idle longest yields: of the address that is full, or of all.
func TestTheIdlestYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(Limits{Max: 4, MaxEach: 2})
		first, _ := enter(t, l, "10.0.0.1")
		second, _ := enter(t, l, "10.0.0.1")
		other, _ := enter(t, l, "2001:db8::1")
		time.Sleep(time.Millisecond)
		first.Idle() // after a request
		if _, yielded := enter(t, l, "10.0.0.1"); yielded != second {
			t.Errorf("yielded %v, want the second", yielded)
		}
		enter(t, l, "2001:db8::1")
		first.Busy()
		if _, yielded := enter(t, l, "10.0.0.3"); yielded != other {
			t.Errorf("yielded %v, want the oldest of all that is idle", yielded)
		}
		if all, from := l.slots.Taken(first.From); all != 4 || from != 2 {
			t.Errorf("%d open, %d of the address; want 4, 2", all, from)
		}
	})
}

// Without Keep busy members yield last, the one with the oldest request first; with Keep they
// don't, for so long.
func TestBusyMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(Limits{Max: 2, MaxEach: 2})
		first, _ := enter(t, l, "10.0.0.1")
		second, _ := enter(t, l, "10.0.0.1")
		second.Busy()
		time.Sleep(time.Millisecond)
		first.Busy()
		if _, yielded := enter(t, l, "10.0.0.1"); yielded != second {
			t.Errorf("yielded %v, want the one with the older request", yielded)
		}

		l = limiter(Limits{Max: 2, MaxEach: 2, Keep: time.Minute})
		first, _ = enter(t, l, "10.0.0.1")
		second, _ = enter(t, l, "10.0.0.1")
		first.Busy()
		second.Busy()
		if _, _, err := l.enter(peer{ip: "10.0.0.1"}); err == nil || !strings.Contains(err.Error(), "limit of 2 reached for 10.0.0.1/32") {
			t.Errorf("error %v, want one that names the address and the limit", err)
		}
		if _, _, err := l.enter(peer{ip: "10.0.0.2"}); err == nil || !strings.HasPrefix(err.Error(), "connection limit of 2 reached; ") {
			t.Errorf("error %v, want one that names the limit of all", err)
		}
		time.Sleep(time.Minute)
		second.Busy()
		if _, yielded := enter(t, l, "10.0.0.2"); yielded != first {
			t.Errorf("yielded %v, want the one that kept its place for a minute", yielded)
		}
	})
}

// A connection frees its place once, however often that is said. Unix sockets have no address to be
// bounded by.
func TestMembersLeave(t *testing.T) {
	l := limiter(Limits{Max: 3, MaxEach: 1})
	var members []*Member
	for range 3 {
		m, yielded, err := l.enter(peer{})
		if err != nil || yielded != nil {
			t.Fatal(yielded, err)
		}
		members = append(members, m)
	}
	_, yielded, err := l.enter(peer{})
	if err != nil || yielded == nil {
		t.Fatal(yielded, err)
	}
	for range 2 {
		for _, m := range append(members, yielded) {
			m.Leave()
		}
	}
	if n := l.Len(); n != 1 {
		t.Errorf("%d are open, want the last one", n)
	}
	if len(l.slots.from) != 1 {
		t.Errorf("%d addresses are remembered, want 1", len(l.slots.from))
	}
}

// The slots of an address that holds none take no memory. A request is limited like a connection.
func TestSlots(t *testing.T) {
	slots := NewSlots(0, 1)
	from, other := Prefix("10.0.0.1:80"), Prefix("10.0.0.2:80")
	if err := slots.Acquire(from); err != nil {
		t.Fatal(err)
	}
	if err := slots.Acquire(from); err == nil || err.Error() != "limit of 1 reached for 10.0.0.1/32" {
		t.Errorf("error %v, want one that names the address and the limit", err)
	}
	if err := slots.Acquire(other); err != nil {
		t.Error(err)
	}
	slots.Release(from)
	slots.Release(other)
	if all, _ := slots.Taken(from); all != 0 || len(slots.from) != 0 {
		t.Errorf("%d taken, %d addresses are remembered; want none", all, len(slots.from))
	}
}

// Of all addresses, the one with most connections loses one: first those that have proven nothing,
// then idle ones, then busy ones. A client that opens few connections keeps them, whatever they are.
func TestTheAddressThatHoldsMostYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(Limits{Max: 4})
		client, _ := enter(t, l, "10.0.0.1") // the oldest of all, and unproven
		busy, _ := enter(t, l, "10.0.0.2")
		busy.Busy()
		waits, _ := enter(t, l, "10.0.0.2")
		waits.Busy()
		waits.Idle()
		silent, _ := enter(t, l, "10.0.0.2")
		for i, want := range []*Member{silent, waits} {
			if _, yielded := enter(t, l, "10.0.0."+string(rune('3'+i))); yielded != want {
				t.Errorf("%d: yielded %v, want %v", i, yielded, want)
			}
		}
		if _, yielded := enter(t, l, "10.0.0.9"); yielded != client {
			t.Errorf("yielded %v, want the oldest that has proven nothing, where each holds one", yielded)
		}
	})
}

// A handshake has its time, whatever deadline the library gives it; what follows it has not.
func TestHandshakesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer client.Close()
		m, err := limiter(Limits{Handshake: time.Second}).Enter(server)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		waits := func(deadline, want time.Duration) {
			t.Helper()
			began := time.Now()
			_ = m.SetReadDeadline(began.Add(deadline))
			if _, err := m.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != want {
				t.Errorf("%v after %v, want the end after %v", err, time.Since(began), want)
			}
		}
		waits(time.Minute, time.Second)
		waits(time.Millisecond, time.Millisecond)
		_ = m.SetReadDeadline(time.Time{})
		waits(time.Minute, time.Minute)
	})
}

// A connection whose client reads nothing ends with the first write that takes too long, also for the goroutine that reads.
func TestWritesThatStallEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer client.Close()
		m, err := limiter(Limits{WriteStall: time.Second}).Enter(server)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := m.Read(make([]byte, 1)); ended <- err }()
		for range 3 { // a client that reads slowly
			go func() {
				time.Sleep(time.Second / 2)
				_, _ = client.Read(make([]byte, 4))
			}()
			if n, err := m.Write(make([]byte, 4)); n != 4 || err != nil {
				t.Fatalf("%d bytes were written: %v", n, err)
			}
		}
		began := time.Now()
		if _, err := m.Write(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the reader's fault is %v", err)
		}
	})
}

// A connection is busy while one of its requests is served, however many it has.
func TestRequestsMakeBusy(t *testing.T) {
	l := limiter(Limits{Max: 1, Keep: Forever})
	m, _, err := l.enter(peer{ip: "10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	refuses := func() bool {
		m.limiter.mu.Lock()
		defer m.limiter.mu.Unlock()
		return l.yieldingLocked(netip.Prefix{}) == nil
	}
	var inner http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if !refuses() {
			t.Error("a connection with a request would yield")
		}
	})
	outer := l.Requests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.Requests(inner).ServeHTTP(w, r)
		inner.ServeHTTP(w, r) // one of two has ended
	}))
	outer.ServeHTTP(nil, &http.Request{RemoteAddr: m.RemoteAddr().String()})
	if refuses() {
		t.Error("a connection without a request would not yield")
	}
	l.Prove(m.RemoteAddr().String())
	if !refuses() {
		t.Error("a connection that is proven for good would yield")
	}
}
