package remotewrite

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Fault says why a request, or one series of it, is rejected. The zero Fault is none. It borrows
// from the body: call Explain or Error before the next read.
type Fault struct {
	Reason metric.Reason
	// Series is the position of the series in the request, from 1. 0: the request itself is
	// unreadable.
	Series int
	// Offset is the start of the series, or of the damage, in the decompressed body.
	Offset int

	detail detail
	name   string // of the series, if it has one
	about  string
	limit  int
}

// detail is the exact cause: a Reason is a label of the metrics and too coarse to fix a sender by.
type detail uint8

const (
	noDetail detail = iota

	// Wire.
	badMessage
	badReference
	oddReferences

	// Meaning.
	noName
	emptyKey
	sameKey
	notUTF8
	controlLabel
	nothingInIt
	noTimestamp
	farAhead
	longAgo
	badBound
	badQuantile
	badCount
	badSpans
	badTotal
	badSchema
	badCustom
	gaugeHistogram
	strayOfHistogram
	fallingBuckets
	samePoint
	noInfBucket
	noCount
	valueOfHistogram

	// Limits.
	manyLabels
	longLabel
	longLabels
	manySamples
	manySymbols
	manyMetadata
	manyBuckets
	manyParts
	manyQuantiles
)

func (d detail) reason() metric.Reason {
	switch d {
	case noDetail:
		return metric.Applied
	case longAgo:
		return metric.Outdated
	case farAhead, noTimestamp, badBound, badQuantile, badCount, badTotal, fallingBuckets:
		return metric.BadValue
	case controlLabel:
		return metric.BadName
	case gaugeHistogram, badSchema:
		return metric.Unsupported
	case manyLabels, longLabel, longLabels, manySamples, manySymbols, manyMetadata, manyBuckets, manyParts, manyQuantiles:
		return metric.TooLong
	}
	return metric.Malformed
}

func (o *Options) limit(d detail) int {
	switch d {
	case manyLabels:
		return o.MaxLabels
	case longLabel:
		return o.MaxLabelBytes
	case longLabels:
		return o.MaxSeriesBytes
	case manySamples:
		return o.MaxSamples
	case manySymbols:
		return o.MaxSymbols
	case manyMetadata:
		return o.MaxMetadata
	case manyBuckets:
		return o.MaxBuckets
	case manyParts:
		return o.MaxParts
	case manyQuantiles:
		return metric.MaxQuantiles
	}
	return 0
}

// Error is position and cause: "series 3 (\"x\"), at byte 120: two labels are named \"a\"".
func (f Fault) Error() string {
	switch {
	case f.Series == 0:
		return fmt.Sprintf("at byte %d: %s", f.Offset, f.Explain())
	case f.name != "":
		return fmt.Sprintf("series %d (%s), at byte %d: %s", f.Series, shown(f.name), f.Offset, f.Explain())
	}
	return fmt.Sprintf("series %d, at byte %d: %s", f.Series, f.Offset, f.Explain())
}

// remedy is the way to send whole histograms.
const remedy = "send it as one native histogram (send_native_histograms: true in remote_write, with convert_classic_histograms_to_nhcb: true " +
	"in the scrape), or all its series in one request (max_shards: 1 and a larger max_samples_per_send in queue_config)"

var details = [...]string{
	badMessage:       "the bytes are not a message of the type in Content-Type",
	badReference:     "a label refers to a symbol that does not exist",
	oddReferences:    "labels_refs has a name without a value",
	noName:           "the series has no __name__",
	emptyKey:         "a label has no name",
	sameKey:          "two labels are named %s",
	notUTF8:          "the label %s is not valid UTF-8",
	controlLabel:     "the label %s, or its value, has a control character; names, label keys and label values must not",
	nothingInIt:      "the series has neither samples nor histograms",
	noTimestamp:      "a sample has no timestamp",
	farAhead:         "the timestamp is more than 10m in the future; check the clocks of sender and server",
	longAgo:          "the timestamp is too old for a gauge; must be at most 5m ago",
	badBound:         "le is %s; must be a number or +Inf",
	badQuantile:      "quantile is %s; must be from 0 to 1",
	badCount:         "a histogram's counts must be finite and at least 0",
	badSpans:         "a histogram's spans and buckets must describe the same buckets",
	badTotal:         "a histogram's buckets do not add up to its count",
	badSchema:        "a histogram's schema must be from -4 to 8, or -53",
	badCustom:        "a histogram's custom bounds must be finite and increasing, and reach as far as the spans",
	gaugeHistogram:   "gauge histograms are unsupported, because they have no distribution over a window; push the observations",
	strayOfHistogram: "the series is of a histogram or summary, but neither a bucket or quantile, nor _count or _sum",
	fallingBuckets:   "bucket counts must not decrease",
	samePoint:        "two samples of one time are the same bucket, quantile, count or sum",
	noInfBucket:      `the histogram is incomplete in this request: no bucket le="+Inf"; ` + remedy,
	noCount:          "the summary is incomplete in this request: no _count; send all its series in one request (max_shards: 1 and a larger max_samples_per_send in queue_config)",
	valueOfHistogram: "the request has the histogram's _count or _sum, but no buckets; " + remedy,
	manyLabels:       "the series has more than %d labels",
	longLabel:        "the label %s, or its value, has more than %d bytes",
	longLabels:       "the labels have more than %d bytes together",
	manySamples:      "the series has more than %d samples or histograms",
	manySymbols:      "the request has more than %d symbols; send fewer series per request",
	manyMetadata:     "the request has more than %d metadata; send fewer per request",
	manyBuckets:      "a histogram has more than %d buckets or spans",
	manyParts:        "the request has more than %d samples of classic histograms and summaries; send fewer per request, or native histograms",
	manyQuantiles:    "the summary has more than %d quantiles",
}

// Explain describes the cause. All text of the client is quoted in it.
func (f Fault) Explain() string {
	text := details[f.detail]
	switch f.detail {
	case noDetail:
		return f.Reason.String()
	case sameKey, notUTF8, controlLabel, badBound, badQuantile:
		return fmt.Sprintf(text, shown(f.about))
	case longLabel:
		return fmt.Sprintf(text, shown(f.about), f.limit)
	}
	if f.limit > 0 {
		return fmt.Sprintf(text, f.limit)
	}
	return text
}

const maxShown = 64

// shown truncates a client's text for a message.
func shown(text string) string { return fmt.Sprintf("%+q", metric.Truncate(text, maxShown)) }
