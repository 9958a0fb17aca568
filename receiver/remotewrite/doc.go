// Package remotewrite is the grammar of Prometheus remote write, 1.0 and 2.0: from a request's bytes, decompressed, to
// samples for the table, or a reason and a place where they are none.
//
// Reader takes the protobuf apart, by hand, with memory that is kept from request to request: what it returns borrows from
// the body. Feed says what a series is (a counter, a gauge, a part of a histogram) and puts classic histograms and summaries
// together. Before them stands receiver/push, which has the request; after them the table.
//
// Memory is what requests of one sender tell about each other: the types that 1.0 sends by themselves, and histograms in pieces.
//
// The package never does I/O, or decides whom a series is about.
//
// Sources: https://prometheus.io/docs/specs/prw/remote_write_spec/,
// https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/, and the messages as prompb in
// https://github.com/prometheus/prometheus has them.
package remotewrite
