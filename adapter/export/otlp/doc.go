// Package otlp exports every live series to an OpenTelemetry Collector, at an interval, over
// OTLP/HTTP in protobuf.
//
// Before it stands the table, which an export.Source reads; after it a Collector. The package holds
// one request of a few hundred series at a time, and reads further series when the request was
// answered. It never decides how series are stored, and never waits where a sample is applied.
//
// Source of the protocol: https://opentelemetry.io/docs/specs/otlp/#otlphttp
package otlp
