package native

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/number"
)

// jsonFault is why a line was rejected. It is a value that is worded only if the answer shows it,
// because a body can have millions.
type jsonFault struct {
	reason metric.Reason
	offset int
	format string
	arg    []byte // for a %q in format; nil: none
}

func (f *jsonFault) fault() *httpserver.Fault {
	message := f.format
	if f.arg != nil {
		message = fmt.Sprintf(f.format, httpserver.Clip(f.arg))
	}
	return (&httpserver.Fault{Status: httpserver.StatusOf(f.reason), Reason: f.reason.String(), Counted: f.reason,
		Message: message}).At(f.offset)
}

// jsonText reads the JSON of one line (RFC 8259), as much of it as a sample needs.
//
// It replaces encoding/json at a cost of some 230 lines. encoding/json takes a key that appears
// twice, a key in other letters ("NAME"), null, a lone surrogate and bytes that are not UTF-8, all
// of which would push to another series than the client meant. It names no offset of a wrong field,
// and allocates 22 times for a line with two labels, where this parser allocates once.
type jsonText struct {
	b     []byte
	at    int
	text  []byte // scratch: decoded strings with escapes
	fault jsonFault
}

func (j *jsonText) fail(at int, format string, arg []byte) bool {
	return j.failFor(metric.Malformed, at, format, arg)
}

func (j *jsonText) failFor(r metric.Reason, at int, format string, arg []byte) bool {
	j.fault = jsonFault{r, at, format, arg}
	return false
}

func (j *jsonText) space() {
	for j.at < len(j.b) {
		switch j.b[j.at] {
		case ' ', '\t', '\r', '\n':
			j.at++
		default:
			return
		}
	}
}

// take consumes c if it is next, after white space.
func (j *jsonText) take(c byte) bool {
	j.space()
	if j.at < len(j.b) && j.b[j.at] == c {
		j.at++
		return true
	}
	return false
}

// object reads {"key": value, …} and calls value at each value; value must read it to its end.
func (j *jsonText) object(value func(key []byte, keyAt int) bool) bool {
	if !j.take('{') {
		return j.fail(j.at, `a "{" is missing`, nil)
	}
	if j.take('}') {
		return true
	}
	for {
		j.space()
		keyAt := j.at
		key, ok := j.string("a key")
		if !ok {
			return false
		}
		if !j.take(':') {
			return j.fail(j.at, `a ":" is missing after %q`, key)
		}
		if j.space(); !value(key, keyAt) {
			return false
		}
		if j.take('}') {
			return true
		}
		if !j.take(',') {
			return j.fail(j.at, `a "," or "}" is missing`, nil)
		}
	}
}

// string reads a string. A string without escapes is not copied.
func (j *jsonText) string(what string) ([]byte, bool) {
	if !j.take('"') {
		return nil, j.fail(j.at, "%q must be a string in double quotes", []byte(what))
	}
	start := j.at
	for ; j.at < len(j.b); j.at++ {
		switch c := j.b[j.at]; {
		case c == '"':
			s := j.b[start:j.at]
			j.at++
			return s, utf8.Valid(s) || j.fail(start, "the string %q is not UTF-8", s)
		case c == '\\':
			return j.escaped(start)
		case c < ' ':
			return nil, j.fail(j.at, `a control byte in a string is written \u00xx`, nil)
		}
	}
	return nil, j.fail(j.at, "the string does not end", nil)
}

// escaped reads the rest of a string from its first backslash on.
func (j *jsonText) escaped(start int) ([]byte, bool) {
	from := len(j.text)
	j.text = append(j.text, j.b[start:j.at]...)
	for j.at < len(j.b) {
		switch c := j.b[j.at]; {
		case c == '"':
			j.at++
			s := j.text[from:len(j.text):len(j.text)]
			return s, utf8.Valid(s) || j.fail(start, "the string %q is not UTF-8", s)
		case c == '\\':
			if !j.escape() {
				return nil, false
			}
		case c < ' ':
			return nil, j.fail(j.at, `a control byte in a string is written \u00xx`, nil)
		default:
			j.text = append(j.text, c)
			j.at++
		}
	}
	return nil, j.fail(j.at, "the string does not end", nil)
}

const (
	escapes   = `"\/bfnrt`
	escapedTo = "\"\\/\b\f\n\r\t"
)

func (j *jsonText) escape() bool {
	at := j.at
	if at+1 >= len(j.b) {
		return j.fail(at, "the string does not end", nil)
	}
	if i := strings.IndexByte(escapes, j.b[at+1]); i >= 0 {
		j.text = append(j.text, escapedTo[i])
		j.at += 2
		return true
	}
	r, ok := hex4(j.b[at:])
	if !ok {
		return j.fail(at, `a "\" is followed by one of "\/bfnrt or by u and four hexadecimal digits`, nil)
	}
	j.at += 6
	if utf16.IsSurrogate(r) {
		low, _ := hex4(j.b[j.at:])
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return j.fail(at, "half of a surrogate pair is not a character", nil)
		}
		j.at += 6
	}
	j.text = utf8.AppendRune(j.text, r)
	return true
}

// hex4 reads \uXXXX.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	r := rune(0)
	for _, c := range b[2:6] {
		h := httpserver.Hex(c)
		if h > 15 {
			return 0, false
		}
		r = r<<4 | rune(h)
	}
	return r, true
}

// word reads a number, true, false or null, or a mistake in their place.
func (j *jsonText) word() []byte {
	start := j.at
	for j.at < len(j.b) && strings.IndexByte(" \t\r\n,:{}[]\"", j.b[j.at]) < 0 {
		j.at++
	}
	return j.b[start:j.at]
}

// number reads a number. JSON has no leading "+", unlike the body of a path.
func (j *jsonText) number(what string) (number.Number, bool) {
	start := j.at
	w := j.word()
	if len(w) == 0 || w[0] == '+' && !isNotFinite(w) {
		return number.Number{}, j.fail(start, "%q must be a number, written like 12, -0.5 or 1e3", []byte(what))
	}
	n, f := number.Parse(w)
	if f.Reason != metric.Applied {
		return n, j.failFor(f.Reason, start+f.Offset, f.Message, f.Quoted(w))
	}
	return n, true
}

func isNotFinite(b []byte) bool {
	_, ok := number.NotFinite(b)
	return ok
}

func (j *jsonText) bool(what string) (value, ok bool) {
	start := j.at
	switch string(j.word()) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, j.fail(start, "%q must be true or false", []byte(what))
}

// end checks that nothing follows.
func (j *jsonText) end() bool {
	j.space()
	return j.at == len(j.b) || j.fail(j.at, "something follows the object: one line is one sample", nil)
}
