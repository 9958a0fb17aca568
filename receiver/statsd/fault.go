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
		return fmt.Sprintf("the line has %d bytes; must have at most %d", len(line), f.at)
	case notMetric:
		if bytes.HasPrefix(line, []byte("_sc|")) {
			return "service checks are not metrics"
		}
		return "events are not metrics"
	case noColon:
		return `no ":" after the name; must be name:value|type`
	case emptyName:
		return "the name is empty; must be name:value|type"
	case longName:
		return fmt.Sprintf("the name has more than %d bytes", metric.MaxNameLength)
	case openTags:
		return `the name has unbalanced brackets; must have at most one "[", followed by one "]"`
	case noType:
		return `no "|type" after the value; must be name:value|type`
	case badType:
		return explainType(f.token(line, "|:"))
	case emptyValue:
		return "the value is empty; must be name:value|type"
	case badNumber:
		return explainNumber(f.token(line, "|:"))
	case badRate:
		return explainRate(f.token(line, "|:"))
	case badTimestamp:
		return fmt.Sprintf("timestamp is %q; must be whole Unix seconds above 0", shown(f.token(line, "|")))
	case tagsTwice:
		return `there are tags in the name and after "#"; use one of the two`
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

const wantTypes = "must be c, g, ms, h, d or s"

func explainType(text []byte) string {
	if len(text) == 0 {
		return "the type is empty; " + wantTypes
	}
	return fmt.Sprintf("unknown type %q; %s", shown(text), wantTypes)
}

func explainNumber(text []byte) string {
	switch _, ok := cutNumber(text); {
	case ok:
		return fmt.Sprintf("%q is beyond what can be held", shown(text))
	case isNotFinite(text):
		return fmt.Sprintf("value is %q; must be a finite number", shown(text))
	}
	return fmt.Sprintf("%q is no number", shown(text))
}

func explainRate(text []byte) string {
	whole, fraction, reason := parseNumber(text)
	if rate := float64(whole) + fraction; reason == metric.Applied && rate > 0 && rate <= 1 {
		return fmt.Sprintf("rate %q is too small: its inverse is out of range", shown(text))
	}
	return fmt.Sprintf("rate is %q; must be above 0 and at most 1", shown(text))
}

func explainReason(r metric.Reason) string {
	switch r {
	case metric.Applied:
		return "nothing is wrong"
	case metric.Malformed:
		return "the line is cut off, or is not name:value|type"
	case metric.BadName:
		return "the Kubernetes APIs cannot serve a metric of this name, or the name or a label has a control character"
	case metric.BadRate:
		return "rate is out of range; must be above 0 and at most 1"
	case metric.BadValue:
		return "the value is out of range"
	case metric.Unsupported:
		return "events and service checks are not metrics"
	case metric.TooLong:
		return "the line, its name, a tag or the number of tags is over its limit"
	case metric.KindConflict:
		return "the metric is already of another kind; delete it first, or use another name"
	case metric.Identity:
		return "the sender may not push metrics of this object, or the object is ambiguous"
	case metric.OverLimit:
		return "new series over a limit"
	case metric.Outdated:
		return "the gauge's timestamp (T) is too old; must be at most 5m ago"
	case metric.Ignored:
		return "the name matches an ignore pattern"
	}
	return "rejected: " + r.String()
}

const maxShown = 64

// shown truncates a client's text for a message.
func shown(text []byte) []byte {
	if len(text) > maxShown {
		return []byte(metric.Truncate(string(text), maxShown))
	}
	return text
}
