package exposition

import (
	"fmt"
	"strings"

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

// Explain describes the fault to the author of the body: the cause and the remedy, without the
// position. It allocates, so it is for answers and logs.
func (f Fault) Explain() string {
	switch {
	case f.detail >= manyFamilies && f.detail <= longMessage:
		return fmt.Sprintf(limitWords[f.detail], f.limit)
	case f.detail >= timestamp && f.detail < manyFamilies:
		return f.explainMeaning()
	case f.detail >= cutShort:
		return f.explainMessage()
	}
	return f.explainToken()
}

var limitWords = map[detail]string{
	manyFamilies:   "there are more than %d families, which is the limit of a push",
	manyMetrics:    "there are more than %d metrics, which is the limit of a push",
	manyLabels:     "there are more than %d labels, which is the limit of a metric",
	manyLabelBytes: "the name and labels have more than %d bytes, which is the limit of a metric",
	manyBuckets:    "there are more than %d buckets or quantiles, which is the limit of a metric",
	longLine:       "the line has more than %d bytes, which is the limit of a line",
	longHelp:       "the help has more than %d bytes, which is the limit of a line",
	longMessage:    "the metric takes more than %d bytes, which is the limit of a metric in protobuf",
}

const wantTypes = "must be counter, gauge, untyped, summary or histogram"

func (f Fault) explainToken() string {
	switch f.detail {
	case badName:
		return "a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty"
	case badKey:
		return "a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty"
	case noEquals:
		return fmt.Sprintf(`no "=" after label %s; must be name="value"`, shown(f.about))
	case noQuote:
		return fmt.Sprintf("the value of label %s does not begin with a double quote", shown(f.about))
	case openQuote:
		return `the string that begins here does not end on its line; must end with ", and have \n for a line feed`
	case openBraces:
		return "the labels do not end with } on their line"
	case noComma:
		return "a label must be followed by , or }"
	case badEscape:
		return fmt.Sprintf(`unknown escape %s; must be \\, \" or \n`, shown(f.text))
	case noName:
		return `no metric name; must be name{...} or {"name",...}`
	case unquotedName:
		return fmt.Sprintf("%s stands where a metric's name would be in double quotes, or a label's before =", shown(f.text))
	case secondName:
		return "there is a second metric name within the braces"
	case noValue:
		return "no value after the name"
	case badValue:
		return shown(f.text) + " is not a value; must be a decimal number within float64, NaN, +Inf or -Inf" + f.hint()
	case badCharacter:
		return fmt.Sprintf("%s cannot follow a name: a name with other characters than letters, digits, _ and : is "+
			`written {"name",...}`, shown(f.text))
	case trailing:
		return shown(f.text) + " stands after the value; must be the end of the line"
	case badType:
		return fmt.Sprintf("unknown type %s: %s%s", shown(f.text), wantTypes, f.hint())
	}
	return "nothing is wrong"
}

// hint explains a carriage return at the end of the text, which is visible in quotes only.
func (f Fault) hint() string {
	if strings.HasSuffix(f.text, "\r") {
		return ` (lines end with \n alone)`
	}
	return ""
}

func (f Fault) explainMeaning() string {
	switch f.detail {
	case timestamp:
		return "the sample has a timestamp; must have none, because a push is current"
	case notUTF8:
		return "it is not valid UTF-8"
	case nulInName:
		return "a name has a NUL byte"
	case reservedLabel:
		return fmt.Sprintf(`label %s: names that begin with "__" are reserved`, shown(f.about))
	case sameKey:
		return fmt.Sprintf("label %s is repeated", shown(f.about))
	case sameSeries:
		return fmt.Sprintf("the sample of %s repeats the labels of an earlier one", shown(f.about))
	case secondType:
		return fmt.Sprintf("the type of %s is already set by an earlier TYPE line or sample", shown(f.about))
	case secondHelp:
		return fmt.Sprintf("the HELP line of %s is repeated", shown(f.about))
	case namesClash:
		return fmt.Sprintf("%s is a metric, and also the name of a sample of a histogram or summary", shown(f.about))
	case bareHistogram:
		return fmt.Sprintf("%s is a histogram; its samples must have the suffix _bucket, _sum or _count", shown(f.about))
	}
	return f.explainPoints()
}

func (f Fault) explainPoints() string {
	switch f.detail {
	case noBound:
		return `a bucket has no bound; must have the label "le"`
	case noQuantile:
		return `a summary's sample must have the label "quantile", or the suffix _sum or _count`
	case badBound:
		return fmt.Sprintf("bucket bound is %s; must be a number or +Inf", shown(f.text))
	case badQuantile:
		return fmt.Sprintf("quantile is %s; must be a number", shown(f.text))
	case strayBound:
		return fmt.Sprintf("label %s does not belong to a _sum or _count", shown(f.about))
	case ownLabel:
		return fmt.Sprintf("label %s belongs to the buckets or quantiles, not to the metric", shown(f.about))
	case samePoint:
		return "the bucket or quantile is repeated"
	case badCount:
		return "a count of observations must be finite and at least 0"
	case fallingBuckets:
		return "bucket counts are cumulative: this one is below that of a smaller bound, or above that of a larger one"
	case countBelowBucket:
		return fmt.Sprintf("histogram %s counts less than its last bucket, and has no bucket +Inf", shown(f.about))
	case noCount:
		return fmt.Sprintf("histogram %s has neither a count nor a bucket +Inf; must have one of them", shown(f.about))
	}
	return "rejected: " + f.Reason.String()
}

func (f Fault) explainMessage() string {
	switch f.detail {
	case cutShort:
		return "the body ends before the message that its length announces"
	case badMessage:
		return "the bytes are not a message io.prometheus.client.MetricFamily"
	case unknownType:
		return "unknown type of a family; must be COUNTER, GAUGE, SUMMARY, UNTYPED, HISTOGRAM or GAUGE_HISTOGRAM"
	case secondFamily:
		return fmt.Sprintf("%s has an earlier message; all metrics of a family must be in one", shown(f.about))
	case wrongType:
		return "the metric has no value of its family's type"
	case badSchema:
		return "native histogram: the schema must be from -4 to 8"
	case badSpans:
		return "native histogram: spans and counts must describe the same buckets"
	case badNative:
		return "native histogram: counts must be finite, and the zero threshold at least 0"
	}
	return "rejected: " + f.Reason.String()
}
