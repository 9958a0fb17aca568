package statsd

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
)

// readLine parses a line's name, the fields of the whole line, and the first value of the first
// group.
func (s *Scanner) readLine() {
	line := s.line
	if len(line) > s.options.MaxLine {
		s.fail(metric.TooLong, longLine, s.options.MaxLine)
		return
	}
	if line[0] == '_' && !isMetric(line) {
		s.fail(metric.Unsupported, notMetric, 0)
		return
	}
	bar := s.findBar(0)
	colon := bytes.IndexByte(line[:bar], ':')
	switch {
	case colon < 0:
		s.fail(metric.Malformed, noColon, bar)
		return
	case colon == 0:
		s.fail(metric.Malformed, emptyName, 0)
		return
	}
	s.timestamp = 0
	s.Sample.Tags, s.Sample.Container, s.Sample.External = nil, nil, nil
	if !s.readName(line[:colon]) {
		return
	}
	first := colon + 1
	s.group = s.cutGroup(first, bar)
	if s.group != 0 {
		s.readAhead(first, bar)
	}
	s.single = s.group == 0 && s.timestamp == 0
	if tags := s.Sample.Tags; len(tags) >= s.options.MaxTags && s.tooManyTags(tags) {
		s.group, s.value, s.valuesEnd = 0, 0, 0
		return
	}
	s.startValues()
}

// readAhead gives the first group the fields that only the last group carries, then returns to the
// first.
func (s *Scanner) readAhead(first, bar int) {
	for at := s.group; at != 0; {
		at = s.cutGroup(at, s.findBar(at))
	}
	s.cutGroup(first, bar)
}

// readGroup parses the next group of a line, up to its first value.
func (s *Scanner) readGroup() {
	s.group = s.cutGroup(s.group, s.findBar(s.group))
	s.startValues()
}

// isMetric distinguishes metrics whose name begins with "_" from DogStatsD's events,
// "_e{5,4}:title|text", and service checks, "_sc|name|0". Neither may contain a raw newline, so
// both end with their line.
func isMetric(line []byte) bool {
	return !bytes.HasPrefix(line, []byte("_e{")) && !bytes.HasPrefix(line, []byte("_sc|"))
}

// findBar returns the position of the first "|" from a position on, or the end of the line.
func (s *Scanner) findBar(at int) int {
	if bar := bytes.IndexByte(s.line[at:], '|'); bar >= 0 {
		return at + bar
	}
	return len(s.line)
}

// cutGroup parses type and fields of the group whose values are line[at:bar]. It returns the start
// of the next group, or 0. It goes on after a fault, because the groups that follow are valid.
func (s *Scanner) cutGroup(at, bar int) (next int) {
	s.Fault = Fault{}
	s.Sample.Rate = 0
	if bar == len(s.line) {
		s.fail(metric.Malformed, noType, bar)
		return 0
	}
	s.value, s.valuesEnd = at, bar
	at = s.readType(bar + 1)
	for at < len(s.line) && s.line[at] == '|' {
		at = s.readField(at + 1)
	}
	if at < len(s.line) {
		return at + 1
	}
	return 0
}

// readType returns the end of the type: at a "|", at a ":", or the end of the line.
func (s *Scanner) readType(at int) (end int) {
	line := s.line
	for end = at; end < len(line) && line[end] != '|' && line[end] != ':'; end++ {
	}
	switch string(line[at:end]) {
	case "c":
		s.Sample.Kind, s.Sample.Op = metric.Counter, metric.Add
	case "g":
		s.Sample.Kind, s.Sample.Op = metric.Gauge, metric.Assign
	case "ms", "h", "d":
		s.Sample.Kind, s.Sample.Op = metric.Timer, metric.Observe
	case "s":
		s.Sample.Kind, s.Sample.Op = metric.Set, metric.Insert
	default:
		s.fail(metric.Malformed, badType, at)
	}
	return end
}

// startValues parses the first value of the current group.
func (s *Scanner) startValues() {
	if s.Fault.Reason != metric.Applied {
		s.value, s.valuesEnd = 0, 0
		return
	}
	s.Sample.Dated = 0
	switch s.Sample.Kind {
	case metric.Counter, metric.Gauge:
		s.Sample.Dated = s.timestamp
	case metric.Set:
		s.readMember()
		return
	}
	s.Sample.Member = nil
	if s.options.Dialect == DogStatsD && !s.allValid() {
		return
	}
	if at := s.value; !s.readValue() {
		s.fail(metric.Malformed, emptyValue, at)
	}
}

// allValid reports whether all packed values of a group are valid. If one isn't, none is a sample, and the line
// ends: Datadog's agent refuses it whole.
func (s *Scanner) allValid() bool {
	if bytes.IndexByte(s.line[s.value:s.valuesEnd], ':') < 0 {
		return true
	}
	first := s.value
	for s.readValue() {
		if s.Fault.Reason != metric.Applied {
			s.group, s.value, s.valuesEnd = 0, 0, 0
			return false
		}
	}
	s.value = first
	return true
}

// readMember takes a set's value as it stands.
func (s *Scanner) readMember() {
	s.Sample.Member = s.line[s.value:s.valuesEnd]
	s.Sample.Whole, s.Sample.Fraction = 0, 0
	if len(s.Sample.Member) == 0 {
		s.fail(metric.Malformed, emptyValue, s.value)
	}
	s.value = s.valuesEnd
}

// readValue parses the group's next value that is not empty; it returns false if none is left.
func (s *Scanner) readValue() bool {
	line, at := s.line[:s.valuesEnd], s.value
	for at < len(line) && line[at] == ':' {
		at++
	}
	if at == len(line) {
		s.value = at
		return false
	}
	end, n := at, int64(0)
	for end < len(line) && line[end]-'0' <= 9 {
		n = n*10 + int64(line[end]-'0')
		end++
	}
	if (end == len(line) || line[end] == ':') && end-at <= maxExactDigits {
		s.value = end
		s.Sample.Whole, s.Sample.Fraction = n, 0
		if s.Sample.Kind == metric.Gauge {
			s.Sample.Op = metric.Assign
		}
		return true
	}
	s.readAnyNumber(at)
	return true
}

// readAnyNumber parses a value that is more than a few digits.
func (s *Scanner) readAnyNumber(at int) {
	text := s.line[at:s.valuesEnd]
	if colon := bytes.IndexByte(text, ':'); colon >= 0 {
		text = text[:colon]
	}
	s.value = at + len(text)
	if s.Sample.Kind == metric.Gauge {
		s.Sample.Op = metric.Assign
		if s.options.Dialect != DogStatsD && (text[0] == '+' || text[0] == '-') {
			s.Sample.Op = metric.Shift
		}
	}
	var reason metric.Reason
	s.Sample.Whole, s.Sample.Fraction, reason = parseNumber(text)
	if reason != metric.Applied {
		s.fail(reason, badNumber, at)
	}
}
