package statsd

import (
	"bytes"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Fault says why a line, a group or a value is invalid.
type Fault struct {
	Reason metric.Reason
	detail detail
	at     int32 // Offset from the start of the line
	// Offset is the position in the packet of the first wrong byte, or of a missing one.
	Offset int
}

// detail is the exact cause: a Reason is a label of the metrics and too coarse to fix a line by.
type detail uint8

const (
	noDetail detail = iota
	longLine
	notMetric
	noColon
	emptyName
	longName
	openTags
	noType
	badType
	emptyValue
	badNumber
	badRate
	badTimestamp
	tagsTwice
	manyTags
)

// Explain describes the fault to the author of the line: the cause and the remedy, without the
// position. The line is the one that Scanner.Line returned with the fault. Explain allocates, so it
// is for logs and answers, not for every rejected line.
//
// A Fault that has only a Reason is described by that alone.
func (f Fault) Explain(line []byte) string {
	switch f.detail {
	case longLine:
		return fmt.Sprintf("the line has %d bytes, but may have %d", len(line), f.at)
	case notMetric:
		if bytes.HasPrefix(line, []byte("_sc|")) {
			return "service checks are not metrics"
		}
		return "events are not metrics"
	case noColon:
		return `there is no ":" behind the name: want name:value|type`
	case emptyName:
		return "the name is empty: want name:value|type"
	case longName:
		return fmt.Sprintf("the name has more than %d bytes", metric.MaxNameLength)
	case openTags:
		return `the name must have at most one "[", with one "]" behind it`
	case noType:
		return `there is no "|type" behind the value: want name:value|type`
	case badType:
		return explainType(f.token(line, "|:"))
	case emptyValue:
		return "the value is empty: want name:value|type"
	case badNumber:
		return explainNumber(f.token(line, "|:"))
	case badRate:
		return explainRate(f.token(line, "|:"))
	case badTimestamp:
		return fmt.Sprintf("timestamp %q: want whole Unix seconds above 0", shown(f.token(line, "|")))
	case tagsTwice:
		return `there are tags in the name and behind "#": want one of the two`
	case manyTags:
		return "the line has more tags than it may have"
	}
	return explainReason(f.Reason)
}

// token is the text at the fault, up to one of the separators.
func (f Fault) token(line []byte, separators string) []byte {
	token := line[min(int(f.at), len(line)):]
	if end := bytes.IndexAny(token, separators); end >= 0 {
		token = token[:end]
	}
	return token
}

const wantTypes = "want c, g, ms, h, d or s"

func explainType(text []byte) string {
	if len(text) == 0 {
		return "the type is empty: " + wantTypes
	}
	return fmt.Sprintf("unknown type %q: %s", shown(text), wantTypes)
}

func explainNumber(text []byte) string {
	switch _, ok := cutNumber(text); {
	case ok:
		return fmt.Sprintf("%q is beyond what can be held", shown(text))
	case isNotFinite(text):
		return fmt.Sprintf("%q is no value that can be held: want a finite number", shown(text))
	}
	return fmt.Sprintf("%q is no number", shown(text))
}

func explainRate(text []byte) string {
	whole, fraction, reason := parseNumber(text)
	if rate := float64(whole) + fraction; reason == metric.Applied && rate > 0 && rate <= 1 {
		return fmt.Sprintf("rate %q: too small, its inverse cannot be held", shown(text))
	}
	return fmt.Sprintf("rate %q: want a number above 0 and at most 1", shown(text))
}

func explainReason(r metric.Reason) string {
	switch r {
	case metric.Applied:
		return "nothing is wrong"
	case metric.Malformed:
		return "the line is cut off, or not name:value|type"
	case metric.BadName:
		return "a metric of this name cannot be asked for, or the name or a label holds a control character"
	case metric.BadRate:
		return "the rate is not above 0 and at most 1"
	case metric.BadValue:
		return "the value is not one that can be held"
	case metric.Unsupported:
		return "events and service checks are not metrics"
	case metric.TooLong:
		return "the line, its name, a tag or the number of tags is over its limit"
	case metric.KindConflict:
		return "the metric has another kind already: delete it first, or send under another name"
	case metric.Identity:
		return "the sender may not speak of this object, or the object is ambiguous"
	case metric.OverLimit:
		return "it would be a new series, and no more may be"
	case metric.Outdated:
		return "the gauge's timestamp (T) is more than 5m ago: it says nothing of what is now"
	case metric.Ignored:
		return "the name matches a pattern of names that are ignored"
	}
	return "it was refused: " + r.String()
}

const maxShown = 64

// shown truncates a client's text for a message.
func shown(text []byte) []byte {
	if len(text) > maxShown {
		return []byte(metric.Truncate(string(text), maxShown))
	}
	return text
}
