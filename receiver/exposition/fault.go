package exposition

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Fault says why a body is rejected: the first fault in it. The zero Fault is none.
//
// It borrows from the body and the reader: call Explain or Error before the next Read.
type Fault struct {
	Reason metric.Reason
	// Line and Column are the position in a text, from 1; the column is in bytes. 0: no position.
	Line, Column int
	// Family and Metric are the position in protobuf, from 1: the message in the body, and the
	// metric in the message. 0: before the first.
	Family, Metric int

	detail detail
	text   string // the text at the position
	about  string // the family or key that the fault concerns
	limit  int
}

// detail is the exact cause: a Reason is a label of the metrics and too coarse to fix a body by.
type detail uint8

const (
	noDetail detail = iota

	// Tokens.
	badName
	badKey
	noEquals
	noQuote
	openQuote
	openBraces
	noComma
	badEscape
	noName
	unquotedName
	secondName
	noValue
	badValue
	badCharacter
	trailing
	badType

	// Meaning.
	timestamp
	notUTF8
	nulInName
	reservedLabel
	sameKey
	sameSeries
	secondType
	secondHelp
	namesClash
	bareHistogram
	noBound
	noQuantile
	badBound
	badQuantile
	strayBound
	ownLabel
	samePoint
	badCount
	fallingBuckets
	countBelowBucket
	noCount

	// Limits.
	manyFamilies
	manyMetrics
	manyLabels
	manyLabelBytes
	manyBuckets
	longLine
	longHelp
	longMessage

	// Protobuf.
	cutShort
	badMessage
	unknownType
	secondFamily
	wrongType
	badSchema
	badSpans
	badNative
)

func (d detail) reason() metric.Reason {
	switch d {
	case noDetail:
		return metric.Applied
	case badName, nulInName, reservedLabel, badCharacter:
		return metric.BadName
	case badValue, badBound, badQuantile, badCount, fallingBuckets, countBelowBucket, badNative:
		return metric.BadValue
	case timestamp, badSchema:
		return metric.Unsupported
	case secondType, namesClash, secondFamily:
		return metric.KindConflict
	case manyFamilies, manyMetrics:
		return metric.OverLimit
	case manyLabels, manyLabelBytes, manyBuckets, longLine, longHelp, longMessage:
		return metric.TooLong
	}
	return metric.Malformed
}

// Understood reports whether the body is well-formed, but its content must not be pushed. A
// Pushgateway records such a push in its group as failed (push_failure_time_seconds). It records no
// push that its parser (expfmt) can't read; a second TYPE line is one of those.
func (f Fault) Understood() bool {
	switch f.detail {
	case reservedLabel:
		return f.about != "__name__" // expfmt itself rejects that label
	case timestamp, sameSeries, namesClash, wrongType, secondFamily, badSchema, fallingBuckets, countBelowBucket:
		return true
	}
	r := f.detail.reason()
	return r == metric.OverLimit || r == metric.TooLong
}

// limit is the limit that a detail reports as exceeded.
func (o Options) limit(d detail) int {
	switch d {
	case manyFamilies:
		return o.MaxFamilies
	case manyMetrics:
		return o.MaxMetrics
	case manyLabels:
		return o.MaxLabels
	case manyLabelBytes:
		return o.MaxLabelBytes
	case manyBuckets:
		return o.MaxBuckets
	case longLine, longHelp:
		return o.MaxLine
	case longMessage:
		return o.MaxMessage
	}
	return 0
}

// Error is position and cause: "line 3, column 7: the label value does not end on its line".
func (f Fault) Error() string {
	switch {
	case f.Line > 0:
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Explain())
	case f.Metric > 0:
		return fmt.Sprintf("family %d, metric %d: %s", f.Family, f.Metric, f.Explain())
	case f.Family > 0:
		return fmt.Sprintf("family %d: %s", f.Family, f.Explain())
	}
	return f.Explain()
}

const maxShown = 64

// shown truncates a client's text for a message.
func shown(text string) string { return fmt.Sprintf("%q", metric.Truncate(text, maxShown)) }
