// Package push is the HTTP receiver: it takes samples over HTTP, and lets their senders read and
// delete them on the path that they were pushed to. It joins the protocols, each a package, to
// their common server.
//
//	PUT, POST, GET, DELETE  /v1/namespaces/{namespace}/{resource}/{name}/{metric}
//	                        /v1/namespaces/{namespace}/metrics/{metric}      the namespace itself
//	                        /v1/namespaces/{namespace}/external/{metric}
//	                        /v1/{cluster resource}/{name}/{metric}
//	                        /v1/external/{metric}                            cluster-wide
//	POST                    /v1/samples                                      NDJSON, one sample a line
//	POST                    /v1/statsd                                       StatsD lines
//	POST                    /v1/metrics                                      OpenTelemetry's OTLP
//	POST                    /api/v1/write                                    Prometheus remote write
//	GET                     /metrics/series                                  all series, for Prometheus
//	GET                     /openapi.json                                    all of this, for machines
//
// Clients are before it; behind its interfaces are the table (receiver.Applier, native.Reader), the
// names of Kubernetes resources (httpserver.Resources) and the store (httpserver.Syncer). The
// goroutine that reads a request applies it, without a queue: a 200 means applied, and visible to
// the next read. A 202 means that some samples are held until their sender is known
// (pending.Buffer).
//
// A body is read completely before its first sample is applied: one that is too large, truncated or
// cannot be decompressed changes nothing. After that, every line is independent: applied lines stay
// applied, whatever becomes of the others, and the answer counts both.
//
// Reads and deletes obey the same trust as pushes (httpserver.Trust). The sender of a request is
// the remote address of its connection, or its credential; headers such as X-Forwarded-For are
// ignored.
//
// Answers are JSON, except to OTLP in protobuf and for expositions. An answer whose status is
// neither 200 nor 202 has {"error":{"reason","message","line","offset"}}. Lines count from 1. An
// offset is the number of bytes before the fault in its line, or in a body of one value.
//
// The package never decides which object a sample describes (it passes on the path), never holds a
// series, and never writes bytes of a client unescaped into a log.
package push
