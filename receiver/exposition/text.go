package exposition

import (
	"bytes"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// TextReader reads the text format 0.0.4. One goroutine keeps it and uses it for body after body:
// it reuses its memory.
type TextReader struct {
	collector

	// The current line. Positions are relative to it.
	line  []byte
	fault Fault

	sample  sample
	labels  []metric.Label // of all metrics; the current line's start at sample.labels
	escaped []byte         // unescaped strings

	// The family and part of the last sample's name, which often are the next one's, too. They stay
	// valid: a family's first sample settles its type.
	lastName   string
	lastFamily int
	lastPart   part
}

// sample is the content of a line.
type sample struct {
	name   string
	nameAt int
	size   int // bytes of name and labels
	labels int // start of its labels in TextReader.labels
	// Indexes of "le" and "quantile" among them, or -1, and the positions of their values in the
	// line.
	bound, quantile     int
	boundAt, quantileAt int
	value               float64
	valueAt             int
}

// NewTextReader makes a reader. The options must be valid.
func NewTextReader(o Options) *TextReader { return &TextReader{collector: collector{options: o}} }

// Read reads a body of less than 2 GiB: all of it, or a fault. The families borrow from the body
// and the reader. They are valid until the body changes or the next Read.
func (r *TextReader) Read(body []byte) ([]Family, Fault) {
	r.reset()
	clear(r.labels)
	r.labels, r.escaped = r.labels[:0], r.escaped[:0]
	r.lastName, r.fault = "", Fault{}
	for len(body) > 0 {
		line := body
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			line, body = body[:end], body[end+1:]
		} else {
			body = nil // the last LF may be missing
		}
		r.line = line
		r.position++
		if !r.readLine() {
			return nil, r.fault
		}
	}
	families, d := r.finish()
	if d != noDetail {
		r.fail(d, 0)
		return nil, r.fault
	}
	return families, Fault{}
}

func (r *TextReader) readLine() bool {
	if len(r.line) > r.options.MaxLine {
		return r.fail(longLine, r.options.MaxLine)
	}
	at := skipBlanks(r.line, 0)
	switch {
	case at == len(r.line):
		return true
	case r.line[at] == '#':
		return r.readComment(at + 1)
	}
	return r.readSample(at)
}

// readComment parses HELP and TYPE. Any other comment, and a line that is cut off, is ignored.
func (r *TextReader) readComment(at int) bool {
	at = skipBlanks(r.line, at)
	end := tokenEnd(r.line, at)
	keyword := r.line[at:end]
	isHelp := string(keyword) == "HELP"
	if !isHelp && string(keyword) != "TYPE" {
		return true
	}
	if at = skipBlanks(r.line, end); at == len(r.line) {
		return true
	}
	name, end := r.cutName(at)
	switch {
	case end < 0:
		return false
	case end == len(r.line):
		return true
	case end == at || !isBlank(r.line[end]):
		return r.fail(badName, at)
	}
	family, _, d := r.resolve(name)
	if d != noDetail {
		return r.fail(d, at)
	}
	end = skipBlanks(r.line, end)
	switch {
	case end == len(r.line):
		return true
	case isHelp:
		return r.readHelp(family, at, end)
	}
	return r.readType(family, at, end)
}

func (r *TextReader) readHelp(family, nameAt, at int) bool {
	f := &r.families[family]
	if f.Help != "" {
		r.about = f.Name
		return r.fail(secondHelp, nameAt)
	}
	text := metric.Borrow(r.line[at:])
	if first := strings.IndexByte(text, '\\'); first >= 0 {
		var bad int
		if text, bad = r.unescape(text, first); bad >= 0 {
			return r.failAbout(badEscape, at+bad, metric.Borrow(r.line[at+bad:min(at+bad+2, len(r.line))]))
		}
	}
	f.Help = help(text)
	return true
}

func (r *TextReader) readType(family, nameAt, at int) bool {
	f := &r.families[family]
	if r.states[family].typed {
		r.about = f.Name
		return r.fail(secondType, nameAt)
	}
	text := bytes.TrimRight(r.line[at:], " \t")
	t, ok := parseType(text)
	if !ok {
		return r.failAbout(badType, at, metric.Borrow(text))
	}
	f.Type, r.states[family].typed = t, true
	return true
}

// parseType accepts any case, and gauge histograms, as expfmt does.
func parseType(text []byte) (Type, bool) {
	for i, name := range typeNames {
		if equalFold(text, name) {
			return Type(i), true
		}
	}
	if equalFold(text, "gauge_histogram") {
		return GaugeHistogramType, true
	}
	return 0, false
}

// equalFold compares with a lower-case word.
func equalFold(text []byte, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i, c := range text {
		if c != word[i] && (c < 'A' || c > 'Z' || c+'a'-'A' != word[i]) {
			return false
		}
	}
	return true
}

// part is the part of a family that a sample's name belongs to.
type part uint8

const (
	whole part = iota // the name is the family's
	bucketPart
	sumPart
	countPart
)

var parts = [...]struct {
	suffix string
	part   part
}{{"_count", countPart}, {"_sum", sumPart}, {"_bucket", bucketPart}}

// resolve returns the family that a name belongs to: the family of that name, a histogram or
// summary that has samples of that name, or a new one. It is expfmt's rule, in its order.
func (r *TextReader) resolve(name string) (family int, p part, d detail) {
	if name == r.lastName && name != "" {
		return r.lastFamily, r.lastPart, noDetail
	}
	family = r.family(name)
	if family < 0 {
		family, p = r.resolveSample(name)
	}
	if family < 0 {
		if family, d = r.addFamily(name); d != noDetail {
			return 0, 0, d
		}
	}
	r.lastName, r.lastFamily, r.lastPart = name, family, p
	return family, p, noDetail
}

func (r *TextReader) resolveSample(name string) (int, part) {
	for _, p := range parts {
		base, ok := strings.CutSuffix(name, p.suffix)
		if !ok {
			continue
		}
		if i := r.family(base); i >= 0 && r.families[i].Type.HasSample(p.suffix) {
			return i, p.part
		}
	}
	return -1, whole
}

// fail sets the fault at a position of the line.
func (r *TextReader) fail(d detail, at int) bool { return r.failAbout(d, at, "") }

func (r *TextReader) failAbout(d detail, at int, text string) bool {
	r.fault = Fault{
		Reason: d.reason(), Line: r.position, Column: at + 1,
		detail: d, text: text, about: r.about, limit: r.options.limit(d),
	}
	return false
}
