package statsd

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
)

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
