// Package otlp is the grammar of OpenTelemetry's metrics: an ExportMetricsServiceRequest, in protobuf or JSON, to samples, or to
// what is wrong with each data point.
//
// Before it stands receiver/push, which reads requests; after it the table. A request is weighed before it is decoded (Weigh):
// what it takes in memory is more than what it takes on the wire.
//
// It never opens a socket, decides what a sample is about, or tells what a client should do about a fault.
//
// Sources: https://opentelemetry.io/docs/specs/otlp/ for requests,
// https://opentelemetry.io/docs/specs/otel/metrics/data-model/ for what points mean, and
// https://github.com/open-telemetry/opentelemetry-proto/blob/v1.9.0/opentelemetry/proto/metrics/v1/metrics.proto for their form.
package otlp
