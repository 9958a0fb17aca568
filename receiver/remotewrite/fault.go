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
	badMessage:       "this is no message of the type that Content-Type says",
	badReference:     "it refers to a symbol that there is not",
	oddReferences:    "labels_refs has a name without a value",
	noName:           "it has no __name__",
	emptyKey:         "a label has no name",
	sameKey:          "two labels are named %s",
	notUTF8:          "the label %s is not UTF-8",
	controlLabel:     "the label %s, or its value, holds a control character: no name, label key or label value may",
	nothingInIt:      "it has neither samples nor histograms",
	noTimestamp:      "a sample has no timestamp",
	farAhead:         "its timestamp is more than 10m ahead of the time here: one of the clocks is wrong",
	longAgo:          "its timestamp is more than 5m ago, so it says nothing of what is now; newer samples are taken",
	badBound:         "le is %s, which is no bound",
	badQuantile:      "quantile is %s, which is not from 0 to 1",
	badCount:         "a histogram's counts are finite numbers from 0 up",
	badSpans:         "a histogram's spans and buckets do not go together",
	badTotal:         "a histogram's buckets do not add up to its count",
	badSchema:        "a histogram's schema is none of -4 to 8 and -53",
	badCustom:        "a histogram's custom bounds are finite and increase, and are as many as its spans reach to",
	gaugeHistogram:   "it is a gauge histogram, whose distribution is not of what happened in a window: push what it is made of",
	strayOfHistogram: "it is of a histogram or a summary, but neither a bucket or a quantile, nor its _count or _sum",
	fallingBuckets:   "a bucket counts less than one below it",
	samePoint:        "two samples of one moment are the same bucket, quantile, count or sum",
	noInfBucket:      `the histogram is not whole in this request: it has no bucket le="+Inf"; ` + remedy,
	noCount:          "the summary is not whole in this request: it has no _count; send all its series in one request (max_shards: 1 and a larger max_samples_per_send in queue_config)",
	valueOfHistogram: "the histogram's buckets are not in this request, but its _count or _sum is; " + remedy,
	manyLabels:       "it has more than %d labels",
	longLabel:        "the label %s, or its value, has more than %d bytes",
	longLabels:       "its labels have more than %d bytes together",
	manySamples:      "it has more than %d samples, or histograms",
	manySymbols:      "there are more than %d symbols: send fewer series in one request",
	manyMetadata:     "there are more than %d metadata: send fewer in one request",
	manyBuckets:      "a histogram has more than %d buckets or spans",
	manyParts:        "more than %d samples of classic histograms and summaries are in this request: send fewer in one, or native histograms",
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
