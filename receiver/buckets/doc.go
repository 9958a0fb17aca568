// Package buckets converts histograms that a client has aggregated from the forms of the protocols
// to that of the table (metric.Histogram): each bucket's own count, between finite bounds.
//
// Before it stand the receivers of Prometheus' exposition formats, of remote write and of OTLP;
// after it the table.
//
// It never reads a wire format, and never retains its input.
package buckets
