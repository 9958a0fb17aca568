// Package remotewrite is the grammar of Prometheus remote write 1.0 and 2.0: it parses a
// decompressed request into samples for the table, or faults with positions.
//
// Reader splits the protobuf by hand, in reused memory; its results borrow from the body. Converter
// decides what a series is (a counter, a gauge, a part of a histogram) and assembles classic
// histograms and summaries. Before them stands receiver/push, which has the request; after them the
// table. SenderState keeps what requests of one sender say about each other: the types that 1.0
// sends separately, and parts of histograms.
//
// Most series of a request were in earlier ones. Their labels are found in the table's line cache
// and not read (lookahead.go).
//
// The parser is not generated code, because that would decode a whole request at once: a body of a
// few bytes per element becomes many times its size in memory. By hand (reader.go, series.go,
// wire.go and histogram.go, some 850 lines), each element is counted against
// Options before memory is taken, and nothing is allocated per sample.
//
// The package never does I/O, and never decides which object a series describes.
//
// Sources: https://prometheus.io/docs/specs/prw/remote_write_spec/,
// https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/, and the messages in prompb of
// https://github.com/prometheus/prometheus.
package remotewrite
