package statsd

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
)

// Scanner walks through a packet, sample by sample. It is meant to be kept and Reset for each packet, by
// one goroutine:
//
//	for scanner.Reset(packet); scanner.Next(); {
//		if scanner.Fault.Reason != metric.Applied {
//			… // count and log scanner.Line()
//			continue
//		}
//		apply(&scanner.Sample)
//	}
type Scanner struct {
	// Sample is what Next found, where there is no Fault. It borrows the packet's bytes and is
	// overwritten by the following Next; whoever is handed it changes nothing in it. What no line says, who sent
	// it and what its listener is about, is whoever's has the scanner, and stays.
	Sample metric.Sample
	// Fault is what Next found instead; its Reason is metric.Applied where Sample holds.
	Fault Fault

	options Options
	packet  []byte
	next    int // where in the packet the next line begins

	// The line under way. Positions below are within it.
	line      []byte
	lineAt    int // where in the packet it begins
	group     int // where its next group begins; 0: it has no more
	value     int // its group's values still to come: line[value:valuesEnd]
	valuesEnd int
	timestamp int64 // its "T" field; whether the sample gets it depends on the kind
	single    bool  // it has one group, and nothing in it changes from line to line but the value
}

// NewScanner makes a scanner without a packet. The options must be valid.
func NewScanner(o Options) *Scanner { return &Scanner{options: o} }

// Reset starts on a packet: one or more lines. The packet must not change while the scanner is on it.
func (s *Scanner) Reset(packet []byte) {
	s.packet, s.next, s.line, s.lineAt = packet, 0, nil, 0
	s.group, s.value, s.valuesEnd = 0, 0, 0
}

// Line is the line that the last Next read, without its end. It borrows the packet's bytes.
func (s *Scanner) Line() []byte { return s.line }

// LineOffset is where in the packet Line begins.
func (s *Scanner) LineOffset() int { return s.lineAt }

// Next reads on: afterwards either Fault says what was wrong, or Sample holds. It returns false at the
// packet's end. Each line that is not empty gives at least one of the two.
func (s *Scanner) Next() bool {
	s.Fault = Fault{}
	if s.value < s.valuesEnd && s.readValue() {
		return true
	}
	if s.group != 0 {
		s.readGroup()
		return true
	}
	for s.next < len(s.packet) {
		if s.cutLine(); len(s.line) > 0 {
			s.readLine()
			return true
		}
	}
	return false
}

func (s *Scanner) cutLine() {
	s.lineAt = s.next
	line := s.packet[s.next:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
		s.next += end + 1
	} else {
		s.next = len(s.packet)
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	s.line = line
}

// fail enters the fault at a position of the line, unless there is an earlier one.
func (s *Scanner) fail(reason metric.Reason, d detail, at int) {
	if s.Fault.Reason == metric.Applied {
		s.Fault = Fault{Reason: reason, detail: d, at: int32(at), Offset: s.lineAt + at}
	}
}
