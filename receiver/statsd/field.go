package statsd

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// readField parses the field at a position and returns its end. An unknown field ("card:" among
// them) is skipped.
func (s *Scanner) readField(at int) (end int) {
	field := s.line[at:]
	if bar := bytes.IndexByte(field, '|'); bar >= 0 {
		field = field[:bar]
	}
	end = at + len(field)
	if len(field) == 0 {
		return end
	}
	switch field[0] {
	case '#':
		s.readTags(field[1:], at)
	case '@':
		// A rate contains no ":", so the next group begins at one.
		if colon := bytes.IndexByte(field, ':'); colon >= 0 {
			field = field[:colon]
			end = at + colon
		}
		s.readRate(field[1:], at+1)
	case 'T':
		s.readTimestamp(field[1:], at+1)
	case 'c':
		if len(field) > 1 && field[1] == ':' {
			s.Sample.Container = field[2:]
		}
	case 'e':
		if len(field) > 1 && field[1] == ':' {
			s.Sample.External = field[2:]
		}
	}
	return end
}

// readRate parses a rate whose weight, 1/rate, is finite.
func (s *Scanner) readRate(text []byte, at int) {
	whole, fraction, reason := parseNumber(text)
	rate := float64(whole) + fraction
	if reason != metric.Applied || !(rate > 0 && rate <= 1) || math.IsInf(1/rate, 1) {
		s.fail(metric.BadRate, badRate, at)
		return
	}
	s.Sample.Rate = rate
}

// readTimestamp parses whole Unix seconds above 0. Anything else is a fault rather than an unknown
// field: a late value that passed for a new one would overwrite it.
func (s *Scanner) readTimestamp(text []byte, at int) {
	seconds, fraction, reason := parseNumber(text)
	if reason != metric.Applied || fraction != 0 || seconds <= 0 {
		s.fail(metric.Malformed, badTimestamp, at)
		return
	}
	s.timestamp = min(seconds, math.MaxInt64/int64(time.Second)) * int64(time.Second)
}

// readTags takes a "#" section. It is a fault if the name has tags, too: their separators differ.
func (s *Scanner) readTags(tags []byte, at int) {
	if s.Sample.Separator == '=' && s.Sample.Tags != nil {
		s.fail(metric.Malformed, tagsTwice, at)
		return
	}
	s.Sample.Tags, s.Sample.Separator = tags, ':'
}

func (s *Scanner) tooManyTags(tags []byte) bool {
	if bytes.Count(tags, []byte{','}) < s.options.MaxTags {
		return false
	}
	s.Fault = Fault{}
	s.fail(metric.TooLong, manyTags, len(s.line))
	return true
}

// readName parses the name and, in dialects that have them, the tags in it.
func (s *Scanner) readName(name []byte) bool {
	s.Sample.Separator = ':'
	ok := true
	switch s.options.Dialect {
	case Influx:
		name, ok = s.cutNameTags(name, ',')
	case Librato:
		name, ok = s.cutNameTags(name, '#')
	case SignalFx:
		name, ok = s.cutBrackets(name)
	}
	switch {
	case !ok:
		return false
	case len(name) == 0:
		s.fail(metric.Malformed, emptyName, 0)
		return false
	case len(name) > metric.MaxNameLength:
		s.fail(metric.TooLong, longName, metric.MaxNameLength)
		return false
	}
	s.Sample.Name = name
	return true
}

// cutNameTags splits a name from the tags after an opening byte.
func (s *Scanner) cutNameTags(name []byte, open byte) ([]byte, bool) {
	at := bytes.IndexByte(name, open)
	if at < 0 {
		return name, true
	}
	s.Sample.Tags, s.Sample.Separator = name[at+1:], '='
	return name[:at], true
}

// cutBrackets splits a name from the tags in one pair of brackets, anywhere in it: the text around
// them is the name, as in statsd_exporter. A joined name is newly allocated, because samples of
// several lines are held at once; a line in the line cache is not parsed again.
func (s *Scanner) cutBrackets(name []byte) ([]byte, bool) {
	open, closing := bytes.IndexByte(name, '['), bytes.IndexByte(name, ']')
	switch {
	case open < 0:
		return name, true
	case closing < open || bytes.ContainsAny(name[closing+1:], "[]"):
		s.fail(metric.Malformed, openTags, open)
		return nil, false
	}
	s.Sample.Tags, s.Sample.Separator = name[open+1:closing], '='
	before, behind := name[:open], name[closing+1:]
	switch {
	case len(behind) == 0:
		return before, true
	case open == 0:
		return behind, true
	}
	return slices.Concat(before, behind), true
}
