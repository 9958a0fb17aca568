// Package otlphttp serves OTLP/HTTP, by which OpenTelemetry exports metrics. Package otlp reads the exports.
package otlphttp
