// Package buckets takes histograms that a client has summed up, in the forms that protocols have for them, to the one that the
// table takes (metric.Histogram): each bucket's own count, between finite bounds.
//
// Before it stand the receivers of Prometheus' exposition and remote write, and of OTLP; after it the table.
//
// It never reads a wire format, and never keeps what it is handed.
package buckets
