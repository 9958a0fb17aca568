package remotewrite

// Options limit the content of a request. A fault names the limit that is exceeded.
type Options struct {
	// MaxLabels limits the labels of a series, MaxLabelBytes each key and each value,
	// MaxSeriesBytes all of them together: in 2.0, one byte of a request can refer to a long label.
	MaxLabels, MaxLabelBytes, MaxSeriesBytes int
	// MaxSamples limits the samples of one series message, and its histograms.
	MaxSamples int
	// MaxSymbols limits a request's symbols, MaxMetadata its metadata (1.0).
	MaxSymbols, MaxMetadata int
	// MaxBuckets limits the spans, and the buckets of each sign, of one histogram.
	MaxBuckets int
	// MaxParts limits the samples of a request that are parts of classic histograms and summaries.
	MaxParts int
}

// DefaultOptions accept the requests of a Prometheus whose settings are many times the default.
func DefaultOptions() Options {
	return Options{
		MaxLabels:      64,
		MaxLabelBytes:  1024,
		MaxSeriesBytes: 8 << 10,
		MaxSamples:     1 << 13,
		MaxSymbols:     1 << 17,
		MaxMetadata:    1 << 14,
		MaxBuckets:     1 << 12,
		MaxParts:       1 << 16,
	}
}
