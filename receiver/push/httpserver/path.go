package httpserver

import (
	"bytes"
)

// maxSegments is "v1" and the five segments of the longest path.
const maxSegments = 6

// Segments are the decoded segments of a path.
type Segments [maxSegments]string

// Cut reads a path as it stands in the request's first line: it cuts at "/" before it decodes
// percent signs, so that "%2F" never makes a segment and ".." never climbs. It returns the number
// of segments: 0 if one is empty, -1 if there are more than any path has.
func (s *Segments) Cut(path []byte) (int, *Fault) {
	if len(path) == 0 || path[0] != '/' {
		return 0, nil
	}
	var room [256]byte
	var ends [maxSegments]int
	text, n := room[:0], 0
	for rest, more := path[1:], true; more; n++ {
		if n == maxSegments {
			return -1, nil
		}
		var segment []byte
		segment, rest, more = bytes.Cut(rest, []byte{'/'})
		if len(segment) == 0 {
			return 0, nil
		}
		var bad int
		if text, bad = Unescape(text, segment, false); bad >= 0 {
			return 0, BadEscape("path", segment, bad)
		}
		ends[n] = len(text)
	}
	all, start := string(text), 0
	for i := range n {
		s[i], start = all[start:ends[i]], ends[i]
	}
	return n, nil
}

// Unescape appends b percent-decoded to dst; bad is the offset of an escape that is none, else -1.
// In a query a "+" is a space.
func Unescape(dst, b []byte, query bool) (out []byte, bad int) {
	if !query && bytes.IndexByte(b, '%') < 0 {
		return append(dst, b...), -1
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '%':
			if i+2 >= len(b) || Hex(b[i+1]) > 15 || Hex(b[i+2]) > 15 {
				return dst, i
			}
			dst = append(dst, Hex(b[i+1])<<4|Hex(b[i+2]))
			i += 2
		case c == '+' && query:
			dst = append(dst, ' ')
		default:
			dst = append(dst, c)
		}
	}
	return dst, -1
}

// Hex returns the value of a hexadecimal digit, or 0xff.
func Hex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
