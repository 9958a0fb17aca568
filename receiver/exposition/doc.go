// Package exposition is what the body of a push to a Pushgateway says: bytes in, families or a fault out, and families
// out again as an answer to GET /metrics.
//
// Before it stands whoever has the whole body, decompressed and bounded (receiver/push); after it whoever keeps groups
// of families. It does no I/O, holds no state between bodies but its memory, and never decides whether a push may be
// applied, adds labels of a path, or knows of other bodies: it only says what the client wrote. A body is taken whole
// or not at all.
//
// There are two readers of one model:
//
//   - TextReader, of the text format 0.0.4, with names in quotes as clients of Prometheus 3 send them:
//     https://prometheus.io/docs/instrumenting/exposition_formats/
//   - ProtobufReader, of io.prometheus.client.MetricFamily, each behind its length, with native histograms. Exemplars
//     and created timestamps are not kept.
//
// # Grammar of the text
//
//	body    = line *( LF line )              ; the last LF may be missing
//	line    = [ comment / sample ]           ; blanks and tabs between tokens and around them are skipped
//	comment = "#" ( "HELP" name text / "TYPE" name type / anything )
//	sample  = ( name [ "{" labels "}" ] / "{" labels "}" ) value
//	labels  = [ label *( "," label ) [ "," ] ]
//	label   = key "=" quoted / quoted        ; one quoted alone is the name, where none stands before the braces
//	name    = ( letter / "_" / ":" ) *( letter / digit / "_" / ":" ) / quoted
//	key     = ( letter / "_" ) *( letter / digit / "_" ) / quoted
//	quoted  = DQUOTE *( any byte but DQUOTE, LF, "\" / "\\" / "\" DQUOTE / "\n" ) DQUOTE
//	value   = decimal number within float64 / "NaN" / [ "+" / "-" ] "Inf"
//
// # What a push may not say
//
//   - A timestamp: a push is of now.
//   - A series twice, whatever the order of its labels; a bucket or quantile twice. (A label of the empty value is a
//     label: Prometheus would take it for none.)
//   - A label whose name begins with "__", or that is there twice.
//   - A second TYPE of a name, or a TYPE behind the first sample.
//   - A metric of the name of a sample of a histogram or summary: h_count beside the histogram h.
//   - Buckets whose counts fall. A missing bucket +Inf is added from the count, a missing count taken from it; where
//     both are missing there is no telling. Where both are there and differ, both are kept.
//   - NUL in a name, and what is not UTF-8 in a name or label value. In a help it is replaced: such a help would cost
//     Prometheus all that is scraped with it.
//   - More than the Options allow.
//
// Values are any float64. A family's samples need not stand together.
//
// # Differences
//
// What github.com/prometheus/common/expfmt takes, TextReader takes with the same meaning, and the other way round, but
// for the above and these (a fuzz test holds that):
//
//   - Blanks at the end of a line are skipped, as the format says. expfmt refuses them, and a missing last LF.
//   - A name within braces is in quotes, as for Prometheus, and its samples join their summary or histogram; expfmt
//     reads them by the line before, and panics on some. Labels without a name are a fault; expfmt adds them to the
//     line before.
//   - Quotes within a name, and a backslash or letters outside ASCII in a type, are faults; expfmt drops them, or folds
//     their case.
//   - "le" on buckets alone and "quantile" on quantiles alone, where they must be, and are a number. expfmt drops the
//     sample, or the label, or takes a sample of the histogram's own name for a bucket.
//   - Counts are finite and at least 0; those of a summary may have a fraction, which expfmt cuts off.
//   - Gauge histograms are written as histograms in text: it has no other name for them.
package exposition
