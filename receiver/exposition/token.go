package exposition

import (
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// Classes of bytes.
const (
	letter = 1 << iota // or _
	digit
	colon
)

var class = func() (table [256]uint8) {
	for c := byte('a'); c <= 'z'; c++ {
		table[c], table[c-'a'+'A'] = letter, letter
	}
	for c := byte('0'); c <= '9'; c++ {
		table[c] = digit
	}
	table['_'], table[':'] = letter, colon
	return table
}()

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func skipBlanks(line []byte, at int) int {
	for at < len(line) && isBlank(line[at]) {
		at++
	}
	return at
}

func tokenEnd(line []byte, at int) int {
	for at < len(line) && !isBlank(line[at]) {
		at++
	}
	return at
}

// cutName returns a metric's name, quoted or not, and its end: the start if there is none, -1 after
// a fault.
func (r *TextReader) cutName(at int) (string, int) { return r.cutWord(at, letter|colon) }

// cutKey is cutName for a label's key.
func (r *TextReader) cutKey(at int) (string, int) { return r.cutWord(at, letter) }

func (r *TextReader) cutWord(at int, first uint8) (string, int) {
	if at == len(r.line) {
		return "", at
	}
	if r.line[at] == '"' {
		return r.cutQuoted(at)
	}
	if class[r.line[at]]&first == 0 {
		return "", at
	}
	end := at + 1
	for end < len(r.line) && class[r.line[end]]&(first|digit) != 0 {
		end++
	}
	return metric.Borrow(r.line[at:end]), end
}

// cutQuoted returns the content of the string at a quote, and its end, or -1 after a fault.
func (r *TextReader) cutQuoted(at int) (string, int) {
	escapes := -1
	for i := at + 1; i < len(r.line); i++ {
		switch r.line[i] {
		case '"':
			text := metric.Borrow(r.line[at+1 : i])
			if escapes < 0 {
				return text, i + 1
			}
			text, bad := r.unescape(text, escapes-at-1)
			if bad >= 0 {
				bad += at + 1
				r.failAbout(badEscape, bad, metric.Borrow(r.line[bad:bad+2]))
				return "", -1
			}
			return text, i + 1
		case '\\':
			if escapes < 0 {
				escapes = i
			}
			i++ // an escaped quote does not end the string
		}
	}
	r.fail(openQuote, at)
	return "", -1
}

// unescape returns the content of a text, in the reader's memory, and the position of a bad escape,
// or -1. The position of the first escape is given.
func (r *TextReader) unescape(text string, first int) (said string, bad int) {
	start := len(r.escaped)
	r.escaped = append(r.escaped, text[:first]...)
	for i := first; i < len(text); {
		if text[i] != '\\' {
			next := strings.IndexByte(text[i:], '\\')
			if next < 0 {
				next = len(text) - i
			}
			r.escaped = append(r.escaped, text[i:i+next]...)
			i += next
			continue
		}
		if i+1 == len(text) {
			return "", i
		}
		switch c := text[i+1]; c {
		case '\\', '"':
			r.escaped = append(r.escaped, c)
		case 'n':
			r.escaped = append(r.escaped, '\n')
		default:
			return "", i
		}
		i += 2
	}
	// Earlier strings keep the old memory if the slice has grown.
	return metric.Borrow(r.escaped[start:]), -1
}

var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseFloat parses like strconv, but without hexadecimal and "_": Prometheus parses the floats of
// Go before 1.13. It rejects numbers beyond float64.
func parseFloat(text []byte) (float64, bool) {
	if v, ok := parseShort(text); ok {
		return v, true
	}
	for _, c := range text {
		if c == 'p' || c == 'P' || c == '_' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(metric.Borrow(text), 64)
	return v, err == nil
}

// parseShort parses up to 15 digits with or without a point: the quotient of two exact floats is
// the nearest.
func parseShort(text []byte) (float64, bool) {
	i, negative := 0, false
	if len(text) > 0 && text[0] == '-' {
		i, negative = 1, true
	}
	n, digits, point := int64(0), 0, -1
	for ; i < len(text); i++ {
		c := text[i] - '0'
		switch {
		case c <= 9:
			n = n*10 + int64(c)
			digits++
		case text[i] == '.' && point < 0:
			point = digits
		default:
			return 0, false
		}
	}
	if digits == 0 || digits > 15 {
		return 0, false
	}
	v := float64(n)
	if point >= 0 {
		v /= powersOfTen[digits-point]
	}
	if negative {
		v = math.Copysign(v, -1)
	}
	return v, true
}

// isInteger reports whether the text is a timestamp.
func isInteger(text []byte) bool {
	_, err := strconv.ParseInt(metric.Borrow(text), 10, 64)
	return err == nil
}

// borrowBytes views a string as read-only bytes.
func borrowBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
