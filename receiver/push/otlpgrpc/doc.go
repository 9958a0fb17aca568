// Package otlpgrpc serves OTLP/gRPC, the protocol that OpenTelemetry's SDKs and Collector use unless they are told
// otherwise. It turns each call into the request that an OTLP/HTTP exporter would send (httpserver.Call), so package
// otlphttp answers both, with the same rights, limits and accounts.
//
// net/http speaks HTTP/2, and this package the few bytes of gRPC on it: so a message is read into the memory budget of
// all bodies as it arrives (docs/adr/0097-otlp-grpc.md).
//
// The package never reads a data point, and serves no other service of gRPC: no traces, no logs, no reflection.
//
// Sources: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc and
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
package otlpgrpc
