// Package statsd is the grammar of StatsD and DogStatsD: bytes of a packet in, samples or faults out.
//
// Before it stands whoever has the bytes (a socket's reader, an HTTP body), after it whoever takes a
// metric.Sample. It does no I/O, holds no state between packets, allocates nothing, and never decides
// whether a sample may be applied: it only says what the client wrote.
//
// # Grammar
//
//	packet = line *( "\n" line )           ; "\r\n" and a last "\n" are fine, empty lines are skipped
//	line   = name ":" group *( ":" group ) ; "a:1|c:2|c", as in statsd's stats.js
//	group  = values "|" type *( "|" field )
//	values = value *( ":" value )          ; packed, DogStatsD v1.1; empty ones are skipped
//	type   = "c" / "g" / "ms" / "h" / "d" / "s"
//	field  = "@" rate / "#" tags / "c:" container / "e:" external / "T" seconds / anything, which is skipped
//
// Where the two protocols leave a choice, it is made thus:
//
//   - A name ends at the first ":" and keeps its bytes; it holds no "|".
//   - A set's value is one raw string, ":" included; it is never unpacked.
//   - Of a field that occurs twice in a group, the last counts, as in Datadog's agent.
//   - A rate is its group's own. Tags, identity and timestamp are the line's: a ":" behind "#" is a
//     tag's, so only the last group can carry them, and they describe all groups.
//   - A timestamp counts for counters and gauges (DogStatsD v1.3) and is ignored for others.
//   - A group that cannot be read is one fault, and so is one value among packed ones; the line's other
//     groups and values stand.
//
// Sources: statsd's stats.js and docs/metric_types.md; the DogStatsD protocol up to v1.6.
package statsd
