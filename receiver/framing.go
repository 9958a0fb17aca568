package receiver

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// framer splits a stream into packets and passes them to an ingester. It does no I/O.
type framer interface {
	// readBuffer is the buffer for the next read; it is never empty.
	readBuffer() []byte
	// add takes n bytes that were read into readBuffer. After an error the stream is unusable.
	add(n int) error
	// end marks the end of the stream: the peer closed it in order, or it was cut off.
	end(inOrder bool)
	// reset prepares the framer for another stream.
	reset()
}

// lineFramer splits a stream at newlines.
type lineFramer struct {
	in         *ingester
	maxLine    int
	buffer     []byte
	unfinished int  // bytes of an incomplete line, at the start of the buffer
	skipping   bool // to the end of a line that was rejected for its length

	httpAddress string // of Config
	guards      bool   // a TCP port, where clients of other protocols arrive by mistake
	begun       bool   // the stream is one of lines
}

// newLineFramer makes a buffer that the longest line, with "\r\n", never fills.
func newLineFramer(in *ingester, maxLine int) *lineFramer {
	return &lineFramer{in: in, maxLine: maxLine, buffer: make([]byte, max(maxLine+3, 16<<10))}
}

func (l *lineFramer) readBuffer() []byte { return l.buffer[l.unfinished:] }

func (l *lineFramer) reset() { l.unfinished, l.skipping, l.begun = 0, false, false }

func (l *lineFramer) add(n int) error {
	l.in.countPacket(n)
	data := l.buffer[:l.unfinished+n]
	l.unfinished = 0
	if l.guards && !l.begun {
		switch protocol := protocolOf(data, l.maxLine); protocol {
		case statsdLines:
			l.begun = true
		case undecided:
			l.unfinished = len(data)
			return nil
		default:
			return &foreignError{protocol, l.httpAddress}
		}
	}
	if l.skipping {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return nil
		}
		l.skipping = false
		data = data[end+1:]
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	l.in.applyLines(data[:whole])
	rest := data[whole:]
	if len(rest) > l.maxLine+1 { // even if its last byte is a "\r"
		l.in.reject(statsd.Fault{Reason: metric.TooLong}, l.maxLine, rest)
		l.skipping = true
		return nil
	}
	l.unfinished = copy(l.buffer, rest)
	return nil
}

// end applies a last line without its newline if the peer closed the connection after it. If the
// stream was cut off, the line may be incomplete: "a:1|c" of "a:1|c|@0.1".
func (l *lineFramer) end(inOrder bool) {
	rest := l.buffer[:l.unfinished]
	switch {
	case len(rest) == 0:
	case l.guards && !l.begun && protocolOf(append(rest, '\n'), l.maxLine) > undecided: // never answered
		l.in.reject(statsd.Fault{Reason: metric.Malformed}, 0, nil)
	case inOrder:
		l.in.applyLines(rest)
	default:
		l.in.reject(statsd.Fault{Reason: metric.Malformed}, len(rest), rest)
	}
	l.reset()
}

// packetFramer splits a stream into packets, each preceded by its length in four bytes,
// little-endian (DogStatsD over a unix stream).
type packetFramer struct {
	in         *ingester
	buffer     []byte
	unfinished int
}

const frameHeader = 4

func newPacketFramer(in *ingester, maxPacket int) *packetFramer {
	return &packetFramer{in: in, buffer: make([]byte, frameHeader+maxPacket)}
}

func (f *packetFramer) readBuffer() []byte { return f.buffer[f.unfinished:] }

func (f *packetFramer) reset() { f.unfinished = 0 }

func (f *packetFramer) add(n int) error {
	data := f.buffer[:f.unfinished+n]
	for len(data) >= frameHeader {
		length := int64(binary.LittleEndian.Uint32(data))
		if limit := int64(len(f.buffer) - frameHeader); length > limit {
			f.in.reject(statsd.Fault{Reason: metric.TooLong}, 0, data)
			f.unfinished = 0
			return fmt.Errorf("announced packet length is %d bytes; must be at most %d (the length is 4 bytes, little-endian)",
				length, limit)
		}
		end := frameHeader + int(length)
		if len(data) < end {
			break
		}
		f.in.applyPacket(data[frameHeader:end])
		data = data[end:]
	}
	f.unfinished = copy(f.buffer, data)
	return nil
}

// end applies the whole lines of a packet that was cut off.
func (f *packetFramer) end(bool) {
	if f.unfinished > frameHeader {
		f.in.applyTruncated(f.buffer[frameHeader:f.unfinished], metric.Malformed)
	}
	f.reset()
}

// unixFramer splits the stream of a Unix socket. Clients send lines (python3-statsd, etsy's test
// suite) or length-prefixed packets (DogStatsD). The first four bytes distinguish them: four bytes
// of text, read as a length, exceed 150 MB, and a packet has at most 1 MiB.
type unixFramer struct {
	frames *packetFramer
	lines  *lineFramer // shares the buffer of frames
	chosen framer      // nil: fewer than four bytes have arrived
}

func newUnixFramer(in *ingester, maxPacket, maxLine int) *unixFramer {
	f := newPacketFramer(in, max(maxPacket, maxLine))
	return &unixFramer{frames: f, lines: &lineFramer{in: in, maxLine: maxLine, buffer: f.buffer}}
}

func (u *unixFramer) readBuffer() []byte {
	if u.chosen != nil {
		return u.chosen.readBuffer()
	}
	return u.frames.readBuffer()
}

func (u *unixFramer) add(n int) error {
	if u.chosen != nil {
		return u.chosen.add(n)
	}
	n += u.frames.unfinished
	if n < frameHeader {
		u.frames.unfinished = n
		return nil
	}
	u.frames.unfinished = 0
	u.chosen = u.frames
	if isText(u.frames.buffer[:frameHeader]) {
		u.chosen = u.lines
	}
	return u.chosen.add(n)
}

func (u *unixFramer) end(inOrder bool) {
	if u.chosen != nil {
		u.chosen.end(inOrder)
	}
	u.reset()
}

func (u *unixFramer) reset() {
	u.frames.reset()
	u.lines.reset()
	u.chosen = nil
}

// isText reports whether bytes hold no control characters but line ends and tabs.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
