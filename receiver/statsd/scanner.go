package statsd

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
)

// Scanner iterates over the samples of a packet. One goroutine keeps it and resets it for each
// packet:
//
//	for scanner.Reset(packet); scanner.Next(); {
//		if scanner.Fault.Reason != metric.Applied {
//			… // count and log scanner.Line()
//			continue
//		}
//		apply(&scanner.Sample)
//	}
type Scanner struct {
	// Sample is the result of Next if there is no Fault. It borrows the packet's bytes, and the
	// following Next overwrites it; the caller must not change it. The scanner's owner sets the
	// fields that no line has (Sender, DefaultExternal), and Next keeps them.
	Sample metric.Sample
	// Fault is the result of Next if its Reason is not metric.Applied.
	Fault Fault

	options Options
	packet  []byte
	next    int // start of the next line in the packet

	// The current line. The positions below are relative to it.
	line      []byte
	lineAt    int // start of the line in the packet
	group     int // start of the next group; 0: none
	value     int // the group's remaining values are line[value:valuesEnd]
	valuesEnd int
	timestamp int64 // the "T" field, in Unix nanoseconds; the kind decides whether the sample gets it
	single    bool  // the line has one group, and only its value varies
}

// NewScanner makes a scanner without a packet. The options must be valid.
func NewScanner(o Options) *Scanner { return &Scanner{options: o} }

// Reset starts a packet: one or more lines. The packet must not change while the scanner uses it.
func (s *Scanner) Reset(packet []byte) {
	s.packet, s.next, s.line, s.lineAt = packet, 0, nil, 0
	s.group, s.value, s.valuesEnd = 0, 0, 0
}

// Line is the line that the last Next parsed, without its end. It borrows the packet's bytes.
func (s *Scanner) Line() []byte { return s.line }

// LineOffset is the start of Line in the packet.
func (s *Scanner) LineOffset() int { return s.lineAt }

// Next advances: afterwards either Fault or Sample is set. It returns false at the end of the
// packet. Each line that is not empty gives at least one sample or fault.
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

// fail sets the fault at a position of the line, unless there is an earlier one.
func (s *Scanner) fail(reason metric.Reason, d detail, at int) {
	if s.Fault.Reason == metric.Applied {
		s.Fault = Fault{Reason: reason, detail: d, at: int32(at), Offset: s.lineAt + at}
	}
}

// Cut cuts a line into pieces without parsing it. It returns false if the line cannot be in a line
// cache and must be parsed. It does not validate: the line may be no metric.
func (s *Scanner) Cut(text []byte, l *metric.Line) bool {
	colon := bytes.IndexByte(text, ':')
	if colon <= 0 || len(text) > s.options.MaxLine {
		return false
	}
	end, n := colon+1, int64(0)
	for end < len(text) && text[end]-'0' <= 9 {
		n = n*10 + int64(text[end]-'0')
		end++
	}
	digits := end - colon - 1
	l.Text, l.Head, l.Dialect = text, text[:colon], uint8(s.options.Dialect)
	l.DefaultExternal = s.Sample.DefaultExternal
	if end < len(text) && text[end] == '|' && digits > 0 && digits <= maxExactDigits {
		l.Value, l.Rest = text[colon+1:end], text[end+1:]
		l.Numeric, l.Whole, l.Fraction = true, n, 0
		return true
	}
	return s.cutOther(text, colon+1, l)
}

// cutOther cuts a line whose value is more than a few digits.
func (s *Scanner) cutOther(text []byte, at int, l *metric.Line) bool {
	bar := bytes.IndexByte(text[at:], '|')
	if bar <= 0 {
		return false
	}
	l.Value, l.Rest = text[at:at+bar], text[at+bar+1:]
	l.Numeric = false
	if isDigit(l.Value[0]) || l.Value[0] == '.' {
		var reason metric.Reason
		l.Whole, l.Fraction, reason = parseNumber(l.Value)
		l.Numeric = reason == metric.Applied
	}
	return true
}

// IsCacheable reports whether the sample that Next found is the line's only one and depends on
// nothing but the line's Head and Rest, except for the value.
func (s *Scanner) IsCacheable() bool { return s.single }

// Done reports whether Next would find nothing more.
func (s *Scanner) Done() bool {
	return s.value >= s.valuesEnd && s.group == 0 && s.next == len(s.packet)
}
