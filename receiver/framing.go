package receiver

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// splitter parts a stream into packets and hands them to an intake. It does no I/O.
type framer interface {
	// space is where the next read goes; it is never empty.
	readBuffer() []byte
	// add takes n bytes that were read into space. After an error the stream makes no sense any more.
	add(n int) error
	// end says that there is no more: the peer closed in order, or else the stream was cut off.
	end(inOrder bool)
	// reset makes the splitter ready for another stream.
	reset()
}

// lines parts a stream at its newlines.
type lineFramer struct {
	in         *ingester
	maxLine    int
	buffer     []byte
	unfinished int  // bytes of an unfinished line, at the buffer's beginning
	skipping   bool // to the end of a line that was refused for its length
}

// newLines makes a buffer in which the longest line, with its "\r\n", never fills all.
func newLineFramer(in *ingester, maxLine int) *lineFramer {
	return &lineFramer{in: in, maxLine: maxLine, buffer: make([]byte, max(maxLine+3, 16<<10))}
}

func (l *lineFramer) readBuffer() []byte { return l.buffer[l.unfinished:] }

func (l *lineFramer) reset() { l.unfinished, l.skipping = 0, false }

func (l *lineFramer) add(n int) error {
	l.in.countPacket(n)
	data := l.buffer[:l.unfinished+n]
	l.unfinished = 0
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

// end applies a last line without its newline if the peer closed behind it. One that was cut off may be
// the beginning of another: "a:1|c" of "a:1|c|@0.1".
func (l *lineFramer) end(inOrder bool) {
	rest := l.buffer[:l.unfinished]
	switch {
	case len(rest) == 0:
	case inOrder:
		l.in.applyLines(rest)
	default:
		l.in.reject(statsd.Fault{Reason: metric.Malformed}, len(rest), rest)
	}
	l.reset()
}

// frames parts a stream into packets that each stand behind their length: four bytes, little end first
// (DogStatsD over a unix stream).
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
		if most := int64(len(f.buffer) - frameHeader); length > most {
			f.in.reject(statsd.Fault{Reason: metric.TooLong}, 0, data)
			f.unfinished = 0
			return fmt.Errorf("packet of %d bytes announced: want at most %d (is the length 4 bytes, little end first?)", length, most)
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

// unixSplit parts a stream of a Unix socket. Clients send lines (python3-statsd, etsy's test suite) or packets behind
// their lengths (DogStatsD). The first four bytes tell them apart: as a length, four bytes of text announce over
// 150 MB, and a packet has at most 1 MiB.
type unixFramer struct {
	frames *packetFramer
	lines  *lineFramer // shares the buffer of frames
	chosen framer      // nil: fewer than four bytes came
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

// isText reports whether bytes hold no control character but those that part lines and words.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
