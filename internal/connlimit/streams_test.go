package connlimit

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// spoken is a connection of HTTP/2 between a client and a server.
type spoken struct {
	*Streams
	client, server *http2.Framer
	sent, answered bytes.Buffer
}

func newSpoken(t *testing.T, l *Limiter, bodies bool) *spoken {
	t.Helper()
	s := &spoken{Streams: NewStreams(enterFlood(t, l, "10.0.0.1"), bodies)}
	s.client, s.server = http2.NewFramer(&s.sent, nil), http2.NewFramer(&s.answered, nil)
	s.client.AllowIllegalWrites = true
	s.sent.WriteString(http2.ClientPreface)
	return s
}

// headers begins a request with a block of some bytes.
func (s *spoken) headers(stream uint32, length int, end bool) {
	_ = s.client.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: make([]byte, length), EndHeaders: end})
}

// allowed has the server hear what was sent since, in pieces of some bytes, and the other way around.
func (s *spoken) allowed(piece int) bool {
	ok := true
	for s.sent.Len() > 0 && ok {
		ok = s.Received(s.sent.Next(piece))
	}
	for s.answered.Len() > 0 {
		s.Sent(s.answered.Next(piece))
	}
	return ok
}

// Frames that are answered by frames are bounded, however the bytes are cut. Answers, and time, allow more.
func TestAnsweredFramesAreBounded(t *testing.T) {
	for name, send := range map[string]func(s *spoken){
		"pings":                     func(s *spoken) { _ = s.client.WritePing(false, [8]byte{}) },
		"settings":                  func(s *spoken) { _ = s.client.WriteSettings() },
		"data of no request":        func(s *spoken) { _ = s.client.WriteData(3, false, nil) },
		"windows of nothing":        func(s *spoken) { _ = s.client.WriteWindowUpdate(1, 0) },
		"resets":                    func(s *spoken) { _ = s.client.WriteRSTStream(1, http2.ErrCodeCancel) },
		"requests beyond the limit": func(s *spoken) { s.headers(uint32(len(s.open)*2+1), 1, true) },
	} {
		for _, piece := range []int{1, 7, 9, 1 << 20} {
			synctest.Test(t, func(t *testing.T) {
				s := newSpoken(t, limiter(Limits{MaxReceived: 1 << 20}), true)
				_ = s.client.WritePing(true, [8]byte{}) // an answer itself
				_ = s.client.WriteSettingsAck()
				for n := range maxCredit {
					if send(s); !s.allowed(piece) {
						t.Fatalf("%s in pieces of %d: number %d is not allowed", name, piece, n)
					}
				}
				time.Sleep(maxCredit * frameEvery / 2)
				for n := range maxCredit/2 + 1 {
					if send(s); s.allowed(piece) != (n < maxCredit/2) {
						t.Fatalf("%s in pieces of %d: wrong about number %d after some time", name, piece, n)
					}
				}
			})
		}
	}
}

// Frames of a request's body that net/http answers at once, each by an update of a window, are bounded: those with padding,
// and those of a few bytes, which may be at a window's end. Whole frames are not.
func TestSmallDataIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		data, padding []byte
		free          bool
	}{
		"padding":         {nil, []byte{}, false},
		"much padding":    {make([]byte, 4<<10), make([]byte, 100), false},
		"nothing":         {nil, nil, false},
		"a byte":          {[]byte{1}, nil, false},
		"a window's rest": {make([]byte, freeData-1), nil, false},
		"a frame":         {make([]byte, freeData), nil, true},
	} {
		for _, bodies := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newSpoken(t, limiter(Limits{MaxReceived: 1 << 30}), bodies)
				s.headers(1, 1, true)
				n := 0
				for ; s.allowed(1<<20) && n < 3*maxCredit; n++ {
					_ = s.client.WriteDataPadded(1, false, c.data, c.padding)
				}
				if free := n == 3*maxCredit; free != c.free || !free && n != maxCredit {
					t.Errorf("%s: %d are allowed", name, n)
				}
			})
		}
	}
}

// The body of a request that its client ends may stay with the library until a handler ends: few may. Whole bodies are free.
func TestResetBodiesAreBounded(t *testing.T) {
	const window = 128 << 10
	for _, reset := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSpoken(t, limiter(Limits{MaxReceived: 1 << 30}), false)
			n := uint32(0)
			for ; s.allowed(1<<20) && n < maxCredit/2; n++ {
				s.headers(2*n+1, 1, true)
				for range window / (16 << 10) {
					_ = s.client.WriteData(2*n+1, false, make([]byte, 16<<10))
				}
				if reset {
					_ = s.client.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
				} else {
					_ = s.client.WriteData(2*n+1, true, nil)
				}
			}
			if kept := n * window; reset && kept > 2<<20 || !reset && n != maxCredit/2 {
				t.Errorf("reset %v: %d bodies are allowed", reset, n)
			}
		})
	}
}

// A proxy's connection is shared by its users: none of them ends it.
func TestATrustedConnectionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpoken(t, limiter(Limits{MaxReceived: 64 << 10}), true)
		s.member.Trust()
		for i := range uint32(3 * maxCredit) {
			s.headers(2*i+1, 100<<10, true)
			_ = s.client.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
			if !s.allowed(1 << 20) {
				t.Fatalf("request %d", i)
			}
		}
	})
}

// What TLS keeps of messages after the handshake is bounded, and what a reader gets is none of it.
func TestMessagesAfterTheHandshakeHaveABound(t *testing.T) {
	m := enterFlood(t, limiter(Limits{MaxReceived: 1 << 20, Handshake: HandshakeTimeout}), "10.0.0.1")
	if _, err := receive(m, MaxHandshake); err != nil {
		t.Fatal(err)
	}
	_ = m.SetReadDeadline(time.Time{})
	s := NewStreams(m, true)
	for range 100 {
		s.Received([]byte{0})
		if n, err := receive(m, ReadAtOnce+16<<10); err != nil {
			t.Fatalf("%d bytes before a record is whole: %v", n, err)
		}
	}
	if n, err := m.Read(make([]byte, 1<<20)); err != nil || n > ReadAtOnce {
		t.Errorf("%d bytes are read at once: %v", n, err)
	}
	if n, err := receive(m, 1<<20); err == nil || n > MaxSilent {
		t.Errorf("%d bytes that no reader got: %v", n, err)
	}
}

// A client may read a long answer, watch for long, and send many requests: what it sends for each answer is earned by that.
func TestLongConversationsAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpoken(t, limiter(Limits{MaxReceived: 64 << 10}), true)
		for i := range uint32(20_000) {
			stream := 2*i + 1
			s.headers(stream, 2<<10, true)
			_ = s.client.WritePing(false, [8]byte{})
			if !s.allowed(1 << 20) {
				t.Fatalf("request %d", i)
			}
			_ = s.server.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: make([]byte, 20), EndHeaders: true})
			for n := range 16 {
				_ = s.server.WriteData(stream, n == 15, make([]byte, 16<<10))
				for range 4 { // of the stream and of the connection
					_ = s.client.WriteWindowUpdate(stream, 4<<10)
					_ = s.client.WriteWindowUpdate(0, 4<<10)
				}
			}
			if !s.allowed(1 << 20) {
				t.Fatalf("the answer to request %d", i)
			}
		}
	})
}

// Headers that do not end, those of requests whose answers are not read, and bodies that no handler reads are kept: a connection
// has some, and all of an address a share.
func TestOpenRequestsAreBounded(t *testing.T) {
	const budget = 64 << 10
	for name, send := range map[string]func(s *spoken, n int){
		"headers":            func(s *spoken, n int) { s.headers(uint32(2*n+1), 1<<10, true) },
		"an endless header":  func(s *spoken, n int) { _ = s.client.WriteContinuation(1, false, make([]byte, 1<<10)) },
		"bodies":             func(s *spoken, n int) { _ = s.client.WriteData(1, false, make([]byte, 1<<10)) },
		"padding of headers": func(s *spoken, n int) { s.headers(1, 1<<10, true) }, // trailers, again and again
	} {
		s := newSpoken(t, limiter(Limits{MaxReceived: budget}), true)
		s.headers(1, 100, false)
		n := 0
		for ; s.allowed(1<<20) && n < 1000; n++ {
			send(s, n)
		}
		if kept := n << 10; kept < freeReceived || kept > freeReceived+budget {
			t.Errorf("%s: %d KiB were received", name, n)
		}
	}
}

// What a request had is given back when it ends, by its answer or by either side's reset, and when the connection ends.
func TestEndedRequestsGiveBack(t *testing.T) {
	l := limiter(Limits{MaxReceived: 64 << 10})
	s := newSpoken(t, l, false)
	for i := range uint32(1000) {
		stream := 2*i + 1
		s.headers(stream, 20<<10, true)
		_ = s.client.WriteData(stream, false, make([]byte, 100<<10)) // which others bound
		if !s.allowed(1 << 20) {
			t.Fatalf("request %d", i)
		}
		switch i % 4 {
		case 0:
			_ = s.server.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: true, EndHeaders: true})
		case 1:
			_ = s.server.WriteData(stream, true, nil)
		case 2:
			_ = s.server.WriteRSTStream(stream, http2.ErrCodeNo)
		case 3:
			_ = s.client.WriteRSTStream(stream, http2.ErrCodeCancel)
		}
		s.allowed(1 << 20)
	}
	if s.member.bytes != 0 || len(s.open) != 0 {
		t.Errorf("%d bytes of %d requests are kept", s.member.bytes, len(s.open))
	}
	s.headers(9999, 20<<10, true)
	s.allowed(1 << 20)
	s.member.Leave()
	if more := l.received.of.More(s.member.From, 64<<10); more != 48<<10 {
		t.Errorf("%d bytes are left", more)
	}
}
