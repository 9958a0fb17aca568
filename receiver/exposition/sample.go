package exposition

import (
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

// readSample parses a line that is neither empty nor a comment.
func (r *TextReader) readSample(at int) bool {
	r.sample = sample{nameAt: at, labels: len(r.labels), bound: -1, quantile: -1}
	s := &r.sample
	bare := -1 // end of a name that no braces follow
	if r.line[at] != '{' {
		name, end := r.cutName(at)
		switch {
		case end < 0:
			return false
		case end == at || name == "":
			return r.fail(badName, at)
		}
		s.name, s.size = name, len(name)
		bare = end
		at = skipBlanks(r.line, end)
	}
	if at < len(r.line) && r.line[at] == '{' {
		open := at
		if at = r.readLabels(at + 1); at < 0 {
			return false
		}
		if bare < 0 && s.name == "" {
			return r.fail(noName, open)
		}
		bare = -1
		at = skipBlanks(r.line, at)
	}
	if s.size > r.options.MaxLabelBytes {
		return r.fail(manyLabelBytes, s.nameAt)
	}
	return r.readValue(at, bare == at) && r.take()
}

// readValue parses the text after name and labels. adjoining says that it directly follows an
// unquoted name.
func (r *TextReader) readValue(at int, adjoining bool) bool {
	if at == len(r.line) {
		return r.fail(noValue, at)
	}
	end := tokenEnd(r.line, at)
	value, ok := parseFloat(r.line[at:end])
	switch {
	case !ok && adjoining:
		_, size := utf8.DecodeRune(r.line[at:])
		return r.failAbout(badCharacter, at, metric.Borrow(r.line[at:at+size]))
	case !ok:
		return r.failAbout(badValue, at, metric.Borrow(r.line[at:end]))
	}
	r.sample.value, r.sample.valueAt = value, at
	at = skipBlanks(r.line, end)
	if at == len(r.line) {
		return true
	}
	rest := r.line[at:]
	if isInteger(rest[:tokenEnd(rest, 0)]) {
		return r.fail(timestamp, at)
	}
	return r.failAbout(trailing, at, metric.Borrow(rest))
}

// readLabels parses from after { to after } and returns that position, or -1.
func (r *TextReader) readLabels(at int) int {
	for {
		at = skipBlanks(r.line, at)
		if at == len(r.line) {
			return r.failed(openBraces, at)
		}
		if r.line[at] == '}' {
			return at + 1
		}
		if at = r.readLabel(at); at < 0 {
			return -1
		}
		at = skipBlanks(r.line, at)
		switch {
		case at == len(r.line):
			return r.failed(openBraces, at)
		case r.line[at] == ',':
			at++
		case r.line[at] != '}':
			return r.failed(noComma, at)
		}
	}
}

// readLabel parses one label, or the metric's name if it is within the braces, and returns its end,
// or -1.
func (r *TextReader) readLabel(at int) int {
	key, end := r.cutKey(at)
	switch {
	case end < 0:
		return -1
	case key == "":
		return r.failed(badKey, at)
	}
	next := skipBlanks(r.line, end)
	if next == len(r.line) {
		return r.failed(openBraces, next)
	}
	if r.line[next] != '=' {
		return r.takeName(key, at, end)
	}
	r.about = key
	if d := checkKey(key); d != noDetail {
		return r.failed(d, at)
	}
	valueAt := skipBlanks(r.line, next+1)
	if valueAt == len(r.line) || r.line[valueAt] != '"' {
		return r.failed(noQuote, valueAt)
	}
	value, end := r.cutQuoted(valueAt)
	switch {
	case end < 0:
		return -1
	case !utf8.ValidString(value):
		return r.failed(notUTF8, valueAt)
	}
	return r.takeLabel(metric.Label{Key: key, Value: value}, at, valueAt, end)
}

// takeName takes a key without a value: it is the name if none precedes the braces.
func (r *TextReader) takeName(key string, at, end int) int {
	s := &r.sample
	quoted := r.line[at] == '"'
	switch {
	case r.line[s.nameAt] != '{' || !quoted && s.name != "":
		r.about = key
		return r.failed(noEquals, end)
	case !quoted:
		r.failAbout(unquotedName, at, key)
		return -1
	case s.name != "":
		return r.failed(secondName, at)
	}
	s.name = key
	s.size += len(key)
	return end
}

func (r *TextReader) takeLabel(l metric.Label, at, valueAt, end int) int {
	s := &r.sample
	own := r.labels[s.labels:]
	for i := range own {
		if own[i].Key == l.Key {
			return r.failed(sameKey, at)
		}
	}
	if len(own) == r.options.MaxLabels {
		return r.failed(manyLabels, at)
	}
	switch l.Key {
	case "le":
		s.bound, s.boundAt = len(own), valueAt
	case "quantile":
		s.quantile, s.quantileAt = len(own), valueAt
	}
	s.size += len(l.Key) + len(l.Value)
	r.labels = append(r.labels, l)
	return end
}

// failed is fail for functions that return a position.
func (r *TextReader) failed(d detail, at int) int {
	r.fail(d, at)
	return -1
}

// take adds the sample to the family that its name belongs to.
func (r *TextReader) take() bool {
	s := &r.sample
	family, p, d := r.resolve(s.name)
	if d != noDetail {
		return r.fail(d, s.nameAt)
	}
	r.states[family].typed = true
	switch r.families[family].Type {
	case SummaryType:
		return r.takeSummary(family, p)
	case HistogramType, GaugeHistogramType:
		return r.takeHistogram(family, p)
	}
	own := r.labels[s.labels:len(r.labels):len(r.labels)]
	if d := r.addValue(family, own, s.value); d != noDetail {
		r.about = s.name
		return r.fail(d, s.nameAt)
	}
	return true
}

func (r *TextReader) takeSummary(family int, p part) bool {
	s := &r.sample
	return r.takePart(family, p, points{part: whole, key: "quantile", label: s.quantile, at: s.quantileAt,
		missing: noQuantile, bad: badQuantile})
}

func (r *TextReader) takeHistogram(family int, p part) bool {
	s := &r.sample
	if p == whole {
		r.about = s.name
		return r.fail(bareHistogram, s.nameAt)
	}
	return r.takePart(family, p, points{part: bucketPart, key: "le", label: s.bound, at: s.boundAt,
		missing: noBound, bad: badBound})
}

// points describes how the samples of a compound metric carry its distribution: samples of one
// part, each with a label for the position.
type points struct {
	part         part
	key          string
	label        int // index of the sample's label; -1: missing
	at           int
	missing, bad detail
}

// takePart takes a sample of a summary or histogram: a point, the count or the sum.
func (r *TextReader) takePart(family int, p part, of points) bool {
	s := &r.sample
	text, ok := r.cutLabel(of.label)
	switch {
	case p == of.part && !ok:
		return r.fail(of.missing, s.nameAt)
	case p != of.part && ok:
		r.about = of.key
		return r.fail(strayBound, of.at)
	}
	m, ok := r.compoundOf(family)
	if !ok {
		return false
	}
	at, d := s.nameAt, noDetail
	switch p {
	case countPart:
		d = m.setCount(s.value)
	case sumPart:
		d = m.setSum(s.value)
	default:
		point, ok := parseFloat(text)
		at = of.at
		switch {
		case !ok:
			d = of.bad
		case of.part == bucketPart:
			d = r.addBucket(m, point, s.value)
		default:
			d = r.addQuantile(m, point, s.value)
		}
	}
	return d == noDetail || r.failPoint(d, at, text)
}

// cutLabel removes the i-th of the sample's labels and returns its value; for -1 there is none.
func (r *TextReader) cutLabel(i int) ([]byte, bool) {
	if i < 0 {
		return nil, false
	}
	own := r.labels[r.sample.labels:]
	value := own[i].Value
	copy(own[i:], own[i+1:])
	r.labels = r.labels[:len(r.labels)-1]
	return borrowBytes(value), true
}

// compoundOf returns the summary or histogram of the sample.
func (r *TextReader) compoundOf(family int) (*partial, bool) {
	own := r.labels[r.sample.labels:len(r.labels):len(r.labels)]
	m, isNew, d := r.compound(family, own)
	if d != noDetail {
		return nil, r.fail(d, r.sample.nameAt)
	}
	if !isNew {
		r.labels = r.labels[:r.sample.labels]
	}
	m.position = r.position
	return m, true
}

// failPoint reports a fault of a part of a summary or histogram, with the number if that is at
// fault.
func (r *TextReader) failPoint(d detail, at int, text []byte) bool {
	if d == badCount || d == fallingBuckets {
		at = r.sample.valueAt
	}
	r.about = r.sample.name
	return r.failAbout(d, at, metric.Borrow(text))
}
