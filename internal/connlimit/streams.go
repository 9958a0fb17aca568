package connlimit

import (
	"encoding/binary"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Streams reads the frames of a connection of HTTP/2, and counts what its client has a server keep or answer, of which the library
// tells no handler: headers that do not end, those of requests that it answers itself (431, 400) or whose answer is not read,
// bodies, and frames that it answers by frames, which wait where the client reads nothing. Those of a trusted Member have no
// limit. It is safe for one goroutine that reads beside one that writes.
type Streams struct {
	member *Member
	bodies bool

	mu      sync.Mutex // guards the rest
	in, out frames
	open    map[uint32]stream
	credit  int       // frames that the client may have answered
	since   time.Time // what is earned by time is added up to here
}

// stream is an open request.
type stream struct {
	held int // bytes that are kept of it
	body int // bytes of its body, unless they count as held
}

// kept is what the library may keep of the body until a handler ends, in frames.
func (s stream) kept() int { return min(s.body/eachReset, maxReset) }

// A client may send maxCredit frames at once that are answered by frames. It earns frameEvery by time, and some by each answer:
// clients acknowledge what they read, and grpc's measure the way by pings.
const (
	maxCredit  = 1000
	frameEvery = time.Second / 10
	eachAnswer = 4
	eachData   = 1 << 10 // bytes of answers that earn one
	eachReset  = 2 << 10 // bytes of the body of a request that its client ends
	maxReset   = 64      // frames: a window of 128 KiB
	freeData   = 1 << 10 // bytes of a body's frame from which it is free: padding, and each byte at a window's end, is answered at once
)

// NewStreams begins before the preface of a connection's client. bodies: the server keeps bodies that no handler reads. What is
// read from the member itself is counted no longer.
func NewStreams(m *Member, bodies bool) *Streams {
	m.framed.Store(true)
	return &Streams{member: m, bodies: bodies, in: frames{skip: len(http2.ClientPreface)}, open: map[uint32]stream{},
		credit: maxCredit, since: time.Now()}
}

// Received reports whether the client may have sent these bytes. The connection is to be closed otherwise.
func (s *Streams) Received(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) > 0 {
		s.member.silent.Read()
	}
	return s.in.each(b, s.receivedLocked)
}

// Sent counts bytes that the server sends.
func (s *Streams) Sent(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.each(b, s.sentLocked)
}

func (s *Streams) receivedLocked(f frame) bool {
	of, open := s.open[f.stream]
	switch f.kind {
	case http2.FrameHeaders:
		if !open {
			s.open[f.stream] = of
			if !s.payLocked(1) {
				return false
			}
		}
		return s.holdLocked(f)
	case http2.FrameContinuation:
		return s.holdLocked(f)
	case http2.FrameData:
		if open && s.bodies && !s.holdLocked(f) {
			return false
		} else if open && !s.bodies {
			of.body += f.length
			s.open[f.stream] = of
		}
		if open && (f.flags.Has(http2.FlagDataEndStream) || f.length >= freeData && !f.flags.Has(http2.FlagDataPadded)) {
			return true
		}
	case http2.FrameRSTStream:
		s.endLocked(f.stream)
		return s.payLocked(1 + of.kept())
	case http2.FramePing, http2.FrameSettings:
		if f.flags.Has(http2.FlagPingAck) { // or FlagSettingsAck, which is the same
			return true
		}
	}
	return s.payLocked(1)
}

func (s *Streams) sentLocked(f frame) bool {
	switch f.kind {
	case http2.FrameData:
		s.credit = min(s.credit+eachAnswer+f.length/eachData, maxCredit)
	case http2.FrameHeaders:
		s.credit = min(s.credit+eachAnswer, maxCredit)
	case http2.FrameRSTStream:
		s.endLocked(f.stream)
		return true
	default:
		return true
	}
	if f.flags.Has(http2.FlagDataEndStream) { // the same of both
		s.credit = min(s.credit+s.open[f.stream].kept(), maxCredit) // a handler has ended
		s.endLocked(f.stream)
	}
	return true
}

// holdLocked counts a frame as kept until its request ends.
func (s *Streams) holdLocked(f frame) bool {
	of := s.open[f.stream]
	of.held += f.length
	s.open[f.stream] = of
	return s.member.limiter.received.hold(s.member, f.length)
}

func (s *Streams) endLocked(stream uint32) {
	if n := s.open[stream].held; n > 0 {
		s.member.limiter.received.release(s.member, n)
	}
	delete(s.open, stream)
}

// payLocked takes frames of the credit, and reports whether there were so many.
func (s *Streams) payLocked(frames int) bool {
	if s.credit -= frames; s.credit >= 0 || s.member.trusted.Load() {
		return true
	}
	earned := int(time.Since(s.since) / frameEvery)
	s.since = s.since.Add(time.Duration(earned) * frameEvery)
	s.credit = min(s.credit+earned, maxCredit)
	return s.credit >= 0
}

// frame is the header of a frame (RFC 9113, section 4.1).
type frame struct {
	length int
	kind   http2.FrameType
	flags  http2.Flags
	stream uint32
}

// frames finds the frames in what goes one way.
type frames struct {
	skip   int // bytes before the next frame's header
	header [frameHeader]byte
	have   int // bytes of header
}

const frameHeader = 9

// each calls do for each frame that begins in the next bytes, until it returns false, and reports whether it never did.
func (f *frames) each(b []byte, do func(frame) bool) bool {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip, b = f.skip-n, b[n:]
			continue
		}
		n := copy(f.header[f.have:], b)
		f.have, b = f.have+n, b[n:]
		if f.have < frameHeader {
			return true
		}
		f.have, f.skip = 0, int(binary.BigEndian.Uint32(f.header[:])>>8)
		if !do(frame{f.skip, http2.FrameType(f.header[3]), http2.Flags(f.header[4]), binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31)}) {
			return false
		}
	}
	return true
}
