// Package push is the HTTP receiver: it takes samples over HTTP, and lets who pushed them read them back
// and delete them, on the path that they were pushed to.
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
//	GET                     /openapi.json                                    all of this, for machines
//
// Before it stand the clients; after it, behind the interfaces that it declares, the table (receiver.Applier,
// Reader), the names of Kubernetes resources (Resources) and the store (Syncer). The goroutine that reads a
// request applies it: no queue stands between, so a 200 means applied and visible to the next read. A 202 says that
// some of it is held until it is known whose it is, and in no series before (pending.Buffer).
//
// A body is read whole before its first sample is applied: one that is too large, cut short or cannot be
// decompressed changes nothing. From there on every line stands for itself: those that were applied stay
// applied, whatever becomes of the others, and the answer counts both.
//
// Reading and deleting obey the same trust as pushing (Trust). Who makes a request is whoever has the connection's other
// end; headers like X-Forwarded-For say nothing here.
//
// Every answer is JSON, but to an OTLP request, which is answered as that protocol has it. One whose status is neither 200
// nor 202 has {"error":{"reason","message","line","offset"}}; lines count from 1, an offset is the number of bytes before the fault in its line (or in the body, where a body
// is one value).
//
// It never decides what a sample is about (it passes on what the path says), never holds a series, and
// never writes bytes of a client unescaped into a log.
package push
