// Package otlphttp serves OTLP/HTTP, the protocol of OpenTelemetry exporters. Package otlp reads
// the exports.
package otlphttp
