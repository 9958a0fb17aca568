package exposition

import (
	"errors"
	"fmt"
)

// Options say how much a body may hold. What is over a limit is a fault that names the limit.
type Options struct {
	// MaxFamilies bounds the families of a body, those that have a TYPE or HELP and no sample included.
	MaxFamilies int
	// MaxMetrics bounds the metrics of a body: a histogram or summary is one for each label set.
	MaxMetrics int
	// MaxLabels bounds the labels of a sample, "le" and "quantile" included.
	MaxLabels int
	// MaxLabelBytes bounds a sample's name and its labels' keys and values together, in bytes.
	MaxLabelBytes int
	// MaxBuckets bounds the buckets or quantiles of a metric; for a native histogram, those of each sign.
	MaxBuckets int
	// MaxLine bounds a line of text, in bytes without its end; in protobuf, a family's help.
	MaxLine int
	// MaxMessage bounds what one metric takes in protobuf, in bytes, before memory is taken to decode it.
	MaxMessage int
}

// DefaultOptions take all that a batch job has reason to push.
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
