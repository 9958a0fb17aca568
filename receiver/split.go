package receiver

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// splitter parts a stream into packets and hands them to an intake. It does no I/O.
type splitter interface {
	// space is where the next read goes; it is never empty.
	space() []byte
	// add takes n bytes that were read into space. After an error the stream makes no sense any more.
	add(n int) error
	// end says that there is no more: the peer closed in order, or else the stream was cut off.
	end(inOrder bool)
	// reset makes the splitter ready for another stream.
	reset()
}

// lines parts a stream at its newlines.
type lines struct {
	in       *intake
	maxLine  int
	buffer   []byte
	have     int  // bytes of an unfinished line, at the buffer's beginning
	skipping bool // to the end of a line that was refused for its length
}

// newLines makes a buffer in which the longest line, with its "\r\n", never fills all.
func newLines(in *intake, maxLine int) *lines {
	return &lines{in: in, maxLine: maxLine, buffer: make([]byte, max(maxLine+3, 16<<10))}
}

func (l *lines) space() []byte { return l.buffer[l.have:] }

func (l *lines) reset() { l.have, l.skipping = 0, false }

func (l *lines) add(n int) error {
	l.in.arrived(n)
	data := l.buffer[:l.have+n]
	l.have = 0
	if l.skipping {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return nil
		}
		l.skipping = false
		data = data[end+1:]
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	l.in.scan(data[:whole])
	rest := data[whole:]
	if len(rest) > l.maxLine+1 { // even if its last byte is a "\r"
		l.in.refuse(statsd.Fault{Reason: metric.TooLong}, l.maxLine, rest)
		l.skipping = true
		return nil
	}
	l.have = copy(l.buffer, rest)
	return nil
}

// end applies a last line without its newline if the peer closed behind it. One that was cut off may be
// the beginning of another: "a:1|c" of "a:1|c|@0.1".
func (l *lines) end(inOrder bool) {
	rest := l.buffer[:l.have]
	switch {
	case len(rest) == 0:
	case inOrder:
		l.in.scan(rest)
	default:
		l.in.refuse(statsd.Fault{Reason: metric.Malformed}, len(rest), rest)
	}
	l.reset()
}

// frames parts a stream into packets that each stand behind their length: four bytes, little end first
// (DogStatsD over a unix stream).
type frames struct {
	in     *intake
	buffer []byte
	have   int
}

const frameHeader = 4

func newFrames(in *intake, maxPacket int) *frames {
	return &frames{in: in, buffer: make([]byte, frameHeader+maxPacket)}
}

func (f *frames) space() []byte { return f.buffer[f.have:] }

func (f *frames) reset() { f.have = 0 }

func (f *frames) add(n int) error {
	data := f.buffer[:f.have+n]
	for len(data) >= frameHeader {
		length := int64(binary.LittleEndian.Uint32(data))
		if most := int64(len(f.buffer) - frameHeader); length > most {
			f.in.refuse(statsd.Fault{Reason: metric.TooLong}, 0, data)
			f.have = 0
			return fmt.Errorf("packet of %d bytes announced: want at most %d (is the length 4 bytes, little end first?)", length, most)
		}
		end := frameHeader + int(length)
		if len(data) < end {
			break
		}
		f.in.take(data[frameHeader:end])
		data = data[end:]
	}
	f.have = copy(f.buffer, data)
	return nil
}

// end applies the whole lines of a packet that was cut off.
func (f *frames) end(bool) {
	if f.have > frameHeader {
		f.in.takeCut(f.buffer[frameHeader:f.have], metric.Malformed)
	}
	f.reset()
}
