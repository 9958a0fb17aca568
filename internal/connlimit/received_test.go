package connlimit

import (
	"errors"
	"testing"
	"time"
)

// flood is a connection whose peer sends without end.
type flood struct{ peer }

func (flood) Read(b []byte) (int, error)      { return len(b), nil }
func (flood) Write(b []byte) (int, error)     { return len(b), nil }
func (flood) Close() error                    { return nil }
func (flood) SetReadDeadline(time.Time) error { return nil }

// receive reads until the connection is closed, or so many bytes are read.
func receive(m *Member, most int) (n int, err error) {
	for b := make([]byte, 16<<10); n < most && err == nil; {
		var more int
		more, err = m.Read(b[:min(len(b), most-n)])
		n += more
	}
	return n, err
}

func enterFlood(t *testing.T, l *Limiter, ip string) *Member {
	t.Helper()
	m, _, err := l.enter(flood{peer{ip: ip}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Headers that never end of one address leave room for those of another, whether they come on one connection or on many.
func TestHeadersThatNeverEndLeaveRoom(t *testing.T) {
	const budget = 1 << 20
	l := limiter(Limits{MaxReceived: budget})
	all := 0
	for range 64 {
		n, err := receive(enterFlood(t, l, "10.0.0.1"), 2*budget)
		if all += n - min(n, freeReceived); !errors.Is(err, errReceivedTooMuch) {
			t.Fatalf("%d bytes were received: %v", n, err)
		}
	}
	if all > budget*3/4 {
		t.Errorf("%d bytes of one address, of %d", all, budget)
	}
	if n, err := receive(enterFlood(t, l, "10.0.0.2"), freeReceived+budget/8); err != nil {
		t.Errorf("another address received %d bytes: %v", n, err)
	}
}

func TestReceivedBytesAreGivenBack(t *testing.T) {
	const budget = 1 << 20
	l := limiter(Limits{MaxReceived: budget})
	for range 8 { // connections that end
		m := enterFlood(t, l, "10.0.0.1")
		if n, err := receive(m, freeReceived+budget/2); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		m.Leave()
		if _, err := receive(m, freeReceived+budget/2); err == nil {
			t.Fatal("a connection that is gone takes more")
		}
	}
	m := enterFlood(t, l, "10.0.0.1")
	for range 8 { // requests that begin
		if n, err := receive(m, freeReceived+budget/2); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		l.received.begin(m)
	}
}

// A handshake has its own bound, and what it received is not given back by requests.
func TestHandshakesHaveABound(t *testing.T) {
	for _, maxReceived := range []int64{0, 1 << 20} {
		m := enterFlood(t, limiter(Limits{MaxReceived: maxReceived, Handshake: HandshakeTimeout}), "10.0.0.1")
		if n, err := receive(m, 1<<20); err == nil || n > MaxHandshake {
			t.Errorf("%d bytes of a handshake, MaxReceived %d: %v", n, maxReceived, err)
		}
	}
	l := limiter(Limits{MaxReceived: 1 << 20, Handshake: HandshakeTimeout})
	m := enterFlood(t, l, "10.0.0.1")
	if _, err := receive(m, MaxHandshake); err != nil {
		t.Fatal(err)
	}
	_ = m.SetReadDeadline(time.Time{}) // it is over
	if n, err := receive(m, freeReceived+64<<10); err != nil {
		t.Errorf("%d bytes after it: %v", n, err)
	}
}

// A proxy sends whole requests, and passes on what its users send with them.
func TestATrustedConnectionHasNoLimit(t *testing.T) {
	l := limiter(Limits{MaxReceived: 64 << 10})
	m := enterFlood(t, l, "10.0.0.1")
	if _, err := receive(m, freeReceived+40<<10); err != nil {
		t.Fatal(err)
	}
	l.Trust(m.RemoteAddr().String())
	if n, err := receive(m, 1<<20); err != nil {
		t.Errorf("%d bytes: %v", n, err)
	}
	if n, err := receive(enterFlood(t, l, "10.0.0.1"), freeReceived+40<<10); err != nil {
		t.Errorf("%d bytes of another connection of the address, beside the trusted one: %v", n, err)
	}
}
