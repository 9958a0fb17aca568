package connlimit

import (
	"errors"
	"net"
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

func enter(t *testing.T, l *Limiter, ip string) (m, yielded *Member) {
	t.Helper()
	time.Sleep(time.Millisecond)
	m, yielded, err := l.Enter(peer{ip: ip})
	if err != nil {
		t.Fatal(err)
	}
	return m, yielded
}

// The member that has been idle longest yields: of the address that is full, or of all.
func TestTheIdlestYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{Max: 4, MaxEach: 2})
		first, _ := enter(t, l, "10.0.0.1")
		second, _ := enter(t, l, "10.0.0.1")
		other, _ := enter(t, l, "2001:db8::1")
		time.Sleep(time.Millisecond)
		first.Idle() // after a request
		if _, yielded := enter(t, l, "10.0.0.1"); yielded != second {
			t.Errorf("yielded %v, want the second", yielded)
		}
		enter(t, l, "2001:db8::2") // the same /64
		first.Busy()
		if _, yielded := enter(t, l, "10.0.0.3"); yielded != other {
			t.Errorf("yielded %v, want the oldest of all that is idle", yielded)
		}
		if all, from := first.Open(); all != 4 || from != 2 {
			t.Errorf("%d open, %d of the address; want 4, 2", all, from)
		}
	})
}

// Without Keep busy members yield last, the one with the oldest request first; with Keep they
// don't, for so long.
func TestBusyMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{Max: 2, MaxEach: 2})
		first, _ := enter(t, l, "10.0.0.1")
		second, _ := enter(t, l, "10.0.0.1")
		second.Busy()
		time.Sleep(time.Millisecond)
		first.Busy()
		if _, yielded := enter(t, l, "10.0.0.1"); yielded != second {
			t.Errorf("yielded %v, want the one with the older request", yielded)
		}

		l = New(Limits{Max: 2, MaxEach: 2, Keep: time.Minute})
		first, _ = enter(t, l, "10.0.0.1")
		second, _ = enter(t, l, "10.0.0.1")
		first.Busy()
		second.Busy()
		if _, _, err := l.Enter(peer{ip: "10.0.0.1"}); err == nil || !strings.Contains(err.Error(), "limit of 2 reached for 10.0.0.1/32") {
			t.Errorf("error %v, want one that names the address and the limit", err)
		}
		if _, _, err := l.Enter(peer{ip: "10.0.0.2"}); err == nil || !strings.HasPrefix(err.Error(), "connection limit of 2 reached; ") {
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
	l := New(Limits{Max: 3, MaxEach: 1})
	var members []*Member
	for range 3 {
		m, yielded, err := l.Enter(peer{})
		if err != nil || yielded != nil {
			t.Fatal(yielded, err)
		}
		members = append(members, m)
	}
	_, yielded, err := l.Enter(peer{})
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

// Without a limit of each, or with Reject, the new connection is the one that is closed.
func TestReject(t *testing.T) {
	l := New(Limits{Max: 2, Reject: true})
	for range 2 {
		if _, yielded, err := l.Enter(peer{ip: "10.0.0.1"}); yielded != nil || err != nil {
			t.Fatal(yielded, err)
		}
	}
	_, yielded, err := l.Enter(peer{ip: "10.0.0.1"})
	if full := new(FullError); yielded != nil || !errors.As(err, &full) || full.Max != 2 || full.From.IsValid() {
		t.Errorf("yielded %v, error %v; want the new one rejected for the limit of all", yielded, err)
	}
}
