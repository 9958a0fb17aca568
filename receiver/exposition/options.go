package exposition

import (
	"errors"
	"fmt"
)

// Options limit the content of a body. A fault names the limit that is exceeded.
type Options struct {
	// MaxFamilies limits the families of a body, including those that have a TYPE or HELP and no
	// sample.
	MaxFamilies int
	// MaxMetrics limits the metrics of a body: a histogram or summary counts once per label set.
	MaxMetrics int
	// MaxLabels limits the labels of a sample, including "le" and "quantile".
	MaxLabels int
	// MaxLabelBytes limits a sample's name and labels together, in bytes.
	MaxLabelBytes int
	// MaxBuckets limits the buckets or quantiles of a metric; for a native histogram, those of each
	// sign.
	MaxBuckets int
	// MaxLine limits a line of text, in bytes without its end; in protobuf, a family's help.
	MaxLine int
	// MaxMessage limits the encoded size of one metric in protobuf, in bytes, before it is decoded.
	MaxMessage int
}

// DefaultOptions accept any push that a batch job has reason to make.
func DefaultOptions() Options {
	return Options{
		MaxFamilies:   1000,
		MaxMetrics:    10_000,
		MaxLabels:     64,
		MaxLabelBytes: 8 << 10,
		MaxBuckets:    1024,
		MaxLine:       64 << 10,
		MaxMessage:    64 << 10,
	}
}

// maxLimit keeps positions within 32 bits.
const maxLimit = 1 << 28

// Validate returns all faults at once.
func (o Options) Validate() error {
	var faults []error
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"max_families", o.MaxFamilies},
		{"max_metrics", o.MaxMetrics},
		{"max_labels", o.MaxLabels},
		{"max_label_bytes", o.MaxLabelBytes},
		{"max_buckets", o.MaxBuckets},
		{"max_line", o.MaxLine},
		{"max_message", o.MaxMessage},
	} {
		if limit.value < 1 || limit.value > maxLimit {
			faults = append(faults, fmt.Errorf("%s %d: want 1 to %d", limit.name, limit.value, maxLimit))
		}
	}
	return errors.Join(faults...)
}
