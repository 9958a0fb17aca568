package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// Negotiate picks the format that an Accept header prefers, as expfmt does for a Pushgateway: the
// one with the highest quality, of equal ones the first, text if it names none. The escaping stands
// beside the format: without one, names are escaped with underscores.
func Negotiate(accept []byte) (Format, Escaping) {
	best, format, escaping := 0.0, Text, Underscores
	for len(accept) > 0 {
		var one []byte
		one, accept, _ = bytes.Cut(accept, []byte{','})
		media, rest, _ := strings.Cut(string(one), ";")
		params := mediaParams(rest)
		if f, ok := formatOf(strings.ToLower(strings.TrimSpace(media)), params); ok && quality(params) > best {
			best, format = quality(params), f
			escaping, _ = ParseEscaping(params["escaping"])
		}
	}
	return format, escaping
}

// formatOf returns the format of a media range.
func formatOf(media string, params map[string]string) (Format, bool) {
	version := params["version"]
	switch media {
	case "application/vnd.google.protobuf":
		return Protobuf, params["proto"] == "io.prometheus.client.MetricFamily" && params["encoding"] == "delimited"
	case "application/openmetrics-text":
		return OpenMetrics, version == "" || version == "1.0.0" || version == "0.0.1"
	case "text/plain":
		return Text, version == "" || version == "0.0.4"
	case "text/*", "*/*":
		return Text, true
	}
	return 0, false
}

func mediaParams(text string) map[string]string {
	params := map[string]string{}
	for text != "" {
		var one string
		one, text, _ = strings.Cut(text, ";")
		key, value, _ := strings.Cut(one, "=")
		params[strings.ToLower(strings.TrimSpace(key))] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	return params
}

// Quality is the quality in the parameters of a header's element: 1 if it is missing or invalid.
func Quality(params string) float64 { return quality(mediaParams(params)) }

// quality is 1 if the parameter is missing or invalid.
func quality(params map[string]string) float64 {
	if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q >= 0 && q <= 1 {
		return q
	}
	return 1
}
