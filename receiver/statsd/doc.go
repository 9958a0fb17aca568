// Package statsd is the grammar of StatsD and DogStatsD: it parses the bytes of a packet into
// samples or faults.
//
// Its callers have the bytes (a socket's reader, an HTTP body) and apply each metric.Sample. The
// package does no I/O, holds no state between packets and allocates nothing. It never decides
// whether a sample may be applied.
//
// # Grammar
//
//	packet = line *( "\n" line )           ; "\r\n" and a last "\n" are allowed, empty lines are skipped
//	line   = name ":" group *( ":" group ) ; "a:1|c:2|c", as in statsd's stats.js
//	group  = values "|" type *( "|" field )
//	values = value *( ":" value )          ; packed, DogStatsD v1.1; empty values are skipped
//	type   = "c" / "g" / "ms" / "h" / "d" / "s"
//	field  = "@" rate / "#" tags / "c:" container / "e:" external / "T" seconds / anything, skipped
//
// Where the two protocols leave a choice, Sluice decides:
//
//   - A name ends at the first ":" and keeps its bytes; it contains no "|".
//   - A set's value is one raw string, ":" included; it is never unpacked.
//   - If a field occurs twice in a group, the last one counts, as in Datadog's agent.
//   - A rate applies to its group. Tags, identity and timestamp apply to the line: a ":" after "#"
//     belongs to a tag, so only the last group can carry them, and they describe all groups.
//   - A timestamp counts for counters and gauges (DogStatsD v1.3) and is ignored for other kinds.
//   - A malformed group is one fault, and so is one malformed value among packed values. The line's
//     other groups and values are valid.
//
// Sources: statsd's stats.js and docs/metric_types.md; the DogStatsD protocol up to v1.6.
package statsd
