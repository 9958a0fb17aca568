// Package otlp is the grammar of OpenTelemetry's metrics: it converts an
// ExportMetricsServiceRequest, in protobuf or JSON, into samples, or a fault for each invalid data
// point.
//
// Before it stands receiver/push, which reads requests; after it the table. DecodedSize estimates
// the memory of a request before it is decoded, which is more than its size on the wire.
//
// The package never opens a socket, decides which object a sample describes, or tells a client how
// to react to a fault.
//
// Sources: https://opentelemetry.io/docs/specs/otlp/ for requests,
// https://opentelemetry.io/docs/specs/otel/metrics/data-model/ for the meaning of points, and
// https://github.com/open-telemetry/opentelemetry-proto/blob/v1.9.0/opentelemetry/proto/metrics/v1/metrics.proto
// for the messages.
package otlp
