// Package exposition is the grammar of Prometheus' exposition formats: it parses the body of a push
// to a Pushgateway into families or a fault, and writes families as an answer to GET /metrics.
//
// Before it stands receiver/push, which has the whole body, decompressed and limited in size; after
// it receiver/group, which keeps the families. The package does no I/O and holds no state between
// bodies but its memory. It never decides whether a push may be applied, adds labels of a path, or
// compares bodies. A body is accepted or rejected as a whole.
//
// Two readers fill the same types:
//
//   - TextReader parses the text format 0.0.4, including the quoted names of Prometheus 3 clients:
//     https://prometheus.io/docs/instrumenting/exposition_formats/
//   - ProtobufReader parses length-delimited messages io.prometheus.client.MetricFamily, with
//     native histograms. Exemplars and created timestamps are dropped.
//
// # Why not the library
//
// github.com/prometheus/common/expfmt reads and writes the same formats, and the fuzz tests compare
// with it. The code here stays because of these differences.
//
// Reading text (text.go, sample.go, token.go and collector.go, some 900 lines): faults have line
// and column, limits apply while a body is parsed, and a reader that is kept allocates nothing.
// Expfmt returns one message for each sample, and panics on some bodies.
//
// Writing (write.go and writeprotobuf.go, 420 lines): expfmt takes messages of client_model, and
// the conversion to those needs some 110 lines, 460 bytes and 4 allocations per metric; encoding
// them in protobuf another 126 bytes. A page of a million groups would take half a gigabyte, where
// Append takes none beyond its output. Expfmt also cuts off the fraction of a summary's count,
// fails in the middle of an OpenMetrics page at a histogram with fractional counts, and writes no
// gauge histograms in OpenMetrics.
//
// # Grammar of the text
//
//	body    = line *( LF line )              ; the last LF may be missing
//	line    = [ comment / sample ]           ; blanks and tabs between and around tokens are skipped
//	comment = "#" ( "HELP" name text / "TYPE" name type / anything )
//	sample  = ( name [ "{" labels "}" ] / "{" labels "}" ) value
//	labels  = [ label *( "," label ) [ "," ] ]
//	label   = key "=" quoted / quoted        ; a lone quoted string is the name, if none precedes the braces
//	name    = ( letter / "_" / ":" ) *( letter / digit / "_" / ":" ) / quoted
//	key     = ( letter / "_" ) *( letter / digit / "_" ) / quoted
//	quoted  = DQUOTE *( any byte but DQUOTE, LF, "\" / "\\" / "\" DQUOTE / "\n" ) DQUOTE
//	value   = decimal number within float64 / "NaN" / [ "+" / "-" ] "Inf"
//
// # Faults of valid text
//
//   - A timestamp: a push is current.
//   - A repeated series, whatever the order of its labels; a repeated bucket or quantile. (A label
//     with an empty value is a label; Prometheus would drop it.)
//   - A label whose name begins with "__", or a repeated label.
//   - A second TYPE of a name, or a TYPE after the first sample.
//   - A metric with the name of a sample of a histogram or summary: h_count beside the histogram h.
//   - Buckets whose counts decrease. A missing bucket +Inf is made from the count, and a missing
//     count from the bucket; it is a fault if both are missing. If both are present and differ,
//     both are kept.
//   - NUL in a name, and invalid UTF-8 in a name or label value. In a help text it is replaced:
//     otherwise Prometheus would drop the whole scrape.
//   - More than the Options allow.
//
// Values are any float64. A family's samples may stand apart from each other.
//
// # Differences from expfmt
//
// TextReader accepts the same bodies as expfmt, with the same meaning, except for the faults above
// and these differences (a fuzz test checks that):
//
//   - Blanks at the end of a line are skipped, as the format says. Expfmt rejects them, and a
//     missing last LF.
//   - A name within braces is quoted, as for Prometheus, and its samples join their summary or
//     histogram; expfmt assigns them by the line before, and panics on some. Labels without a name
//     are a fault; expfmt adds them to the line before.
//   - Quotes within a name, and a backslash or letters outside ASCII in a type, are faults; expfmt
//     drops them, or folds their case.
//   - "le" belongs to buckets only and "quantile" to quantiles only; there they are required and
//     must be numbers. Expfmt drops the sample or the label, or takes a sample of the histogram's
//     own name for a bucket.
//   - Counts are finite and at least 0; those of a summary may have a fraction, which expfmt cuts
//     off.
//   - Gauge histograms are written as histograms in text, which has no other name for them.
package exposition
