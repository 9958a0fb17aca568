package otlpgrpc

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
)

// frames counts the pings among the frames that a client sends. net/http answers each, however many there are.
type frames struct {
	skip   int // bytes before the next frame's header
	header [frameHeader]byte
	have   int // bytes of header

	credit int       // pings that the client may send
	since  time.Time // what is earned by time is added up to here
}

const (
	frameHeader = 9
	// maxPings is how many pings a client may send at once. It earns one a second, and one with each call: grpc's
	// clients measure the way by a ping for an answer.
	maxPings = 100
)

// newFrames begins behind the connection's preface.
func newFrames(now time.Time) frames {
	return frames{skip: len(http2.ClientPreface), credit: maxPings, since: now}
}

// allow reads the next bytes of the connection, and reports false once too many pings came.
func (f *frames) allow(b []byte, now func() time.Time) bool {
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
		switch http2.FrameType(f.header[3]) {
		case http2.FrameHeaders:
			f.credit = min(f.credit+1, maxPings)
		case http2.FramePing:
			if http2.Flags(f.header[4]).Has(http2.FlagPingAck) {
				continue
			}
			if f.credit--; f.credit < 0 && !f.earned(now()) {
				return false
			}
		}
	}
	return true
}

// earned adds the credit of the time that has passed, and reports whether the last ping was within it.
func (f *frames) earned(now time.Time) bool {
	seconds := int(now.Sub(f.since) / time.Second)
	f.credit = min(f.credit+seconds, maxPings)
	f.since = f.since.Add(time.Duration(seconds) * time.Second)
	return f.credit >= 0
}
