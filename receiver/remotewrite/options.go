package remotewrite

// Options say how much a request may hold. What is over a limit is a fault that names the limit.
type Options struct {
	// MaxLabels bounds the labels of a series, MaxLabelBytes each key and each value, MaxSeriesBytes all of them: in 2.0 a byte of
	// the request may stand for a long label.
	MaxLabels, MaxLabelBytes, MaxSeriesBytes int
	// MaxSamples bounds the samples of one series message, and its histograms.
	MaxSamples int
	// MaxSymbols bounds a request's symbols, MaxMetadata its metadata (of 1.0).
	MaxSymbols, MaxMetadata int
	// MaxBuckets bounds the spans, and the buckets of each sign, of one histogram.
	MaxBuckets int
	// MaxParts bounds the samples of a request that are parts of classic histograms and summaries.
	MaxParts int
}

// DefaultOptions take what a Prometheus sends with settings many times its own.
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
