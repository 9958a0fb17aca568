package exposition

import (
	"fmt"
	"strings"
)

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

const wantTypes = "want counter, gauge, untyped, summary or histogram"

func (f Fault) explainToken() string {
	switch f.detail {
	case badName:
		return "want a metric's name: letters, digits, _ and :, or any UTF-8 in double quotes, not empty"
	case badKey:
		return "want a label's name: letters, digits and _, or any UTF-8 in double quotes, not empty"
	case noEquals:
		return fmt.Sprintf(`there is no "=" behind label %s: want name="value"`, shown(f.about))
	case noQuote:
		return fmt.Sprintf("the value of label %s does not begin with a double quote", shown(f.about))
	case openQuote:
		return `the string that begins here does not end on its line: want ", and \n for a line feed`
	case openBraces:
		return "the labels do not end with } on their line"
	case noComma:
		return "behind a label want , or }"
	case badEscape:
		return fmt.Sprintf(`unknown escape %s: want \\, \" or \n`, shown(f.text))
	case noName:
		return `there is no metric name: want name{...} or {"name",...}`
	case unquotedName:
		return fmt.Sprintf("%s stands where a metric's name would be in double quotes, or a label's before =", shown(f.text))
	case secondName:
		return "there is a second metric name within the braces"
	case noValue:
		return "there is no value behind the name"
	case badValue:
		return shown(f.text) + " is no value: want a decimal number within float64, NaN, +Inf or -Inf" + f.hint()
	case badCharacter:
		return fmt.Sprintf("%s cannot follow a name: a name with other characters than letters, digits, _ and : is "+
			`written {"name",...}`, shown(f.text))
	case trailing:
		return shown(f.text) + " stands behind the value: want the end of the line"
	case badType:
		return fmt.Sprintf("unknown type %s: %s%s", shown(f.text), wantTypes, f.hint())
	}
	return "nothing is wrong"
}

// hint helps whoever sends what shows only in quotes.
func (f Fault) hint() string {
	if strings.HasSuffix(f.text, "\r") {
		return ` (lines end with \n alone)`
	}
	return ""
}

func (f Fault) explainMeaning() string {
	switch f.detail {
	case timestamp:
		return "the sample has a timestamp: a push is of now, want none"
	case notUTF8:
		return "it is not valid UTF-8"
	case nulInName:
		return "there is a NUL byte in a name"
	case reservedLabel:
		return fmt.Sprintf(`label %s: names that begin with "__" are reserved`, shown(f.about))
	case sameKey:
		return fmt.Sprintf("label %s is there twice", shown(f.about))
	case sameSeries:
		return fmt.Sprintf("this sample of %s, with the same labels, is in the body before", shown(f.about))
	case secondType:
		return fmt.Sprintf("the type of %s is settled already, by a TYPE line or samples before", shown(f.about))
	case secondHelp:
		return fmt.Sprintf("%s has a HELP line before", shown(f.about))
	case namesClash:
		return fmt.Sprintf("%s is a metric of its own, and the name of a sample of a histogram or summary too", shown(f.about))
	case bareHistogram:
		return fmt.Sprintf("%s is a histogram: want samples of its name with _bucket, _sum and _count", shown(f.about))
	}
	return f.explainPoints()
}

func (f Fault) explainPoints() string {
	switch f.detail {
	case noBound:
		return `a bucket without its bound: want label "le"`
	case noQuantile:
		return `a summary's sample without label "quantile": want it, or _sum or _count behind the name`
	case badBound:
		return fmt.Sprintf("bucket bound %s: want a number or +Inf", shown(f.text))
	case badQuantile:
		return fmt.Sprintf("quantile %s: want a number", shown(f.text))
	case strayBound:
		return fmt.Sprintf("label %s does not belong to a _sum or _count", shown(f.about))
	case ownLabel:
		return fmt.Sprintf("label %s belongs to the buckets or quantiles, not to the metric", shown(f.about))
	case samePoint:
		return "this bucket or quantile is in the body before"
	case badCount:
		return "a count of observations: want a finite number of at least 0"
	case fallingBuckets:
		return "bucket counts are cumulative: this one is below that of a smaller bound, or above that of a larger one"
	case countBelowBucket:
		return fmt.Sprintf("histogram %s counts less than its last bucket, and has no bucket +Inf", shown(f.about))
	case noCount:
		return fmt.Sprintf("histogram %s has neither a count nor a bucket +Inf", shown(f.about))
	}
	return "rejected: " + f.Reason.String()
}

func (f Fault) explainMessage() string {
	switch f.detail {
	case cutShort:
		return "the body ends before the message that its length announces"
	case badMessage:
		return "this is no message io.prometheus.client.MetricFamily"
	case unknownType:
		return "unknown type of a family: want COUNTER, GAUGE, SUMMARY, UNTYPED, HISTOGRAM or GAUGE_HISTOGRAM"
	case secondFamily:
		return fmt.Sprintf("%s has a message before: want all its metrics in one", shown(f.about))
	case wrongType:
		return "the metric has no value of its family's type"
	case badSchema:
		return "native histogram: want a schema from -4 to 8"
	case badSpans:
		return "native histogram: its spans and its counts do not say the same number of buckets, or not where they are"
	case badNative:
		return "native histogram: want finite counts and a zero threshold of at least 0"
	}
	return "rejected: " + f.Reason.String()
}
