// Package valuelist builds the answers of the metrics APIs, MetricValueList and
// ExternalMetricValueList, and encodes them in JSON and protobuf.
//
// The adapter makes a List from the points of the table (custom.go, external.go), with numbers
// checked against the autoscaler's arithmetic (quantity.go). The Kubernetes API library asks the
// List for its bytes (valuelist.go).
//
// # Why the lists are encoded by hand
//
// Plain JSON and protobuf are encoded from the points (encode.go and the items in custom.go and
// external.go: some 350 lines and as many of tests), because the library
// allocates a typed list, a converted list and the encoded bytes for each read. A read of 150,000
// pods took 376 ms and 104 MB of garbage that way, and takes 136 ms and 1.9 MB (JSON), or 180 ms
// and 72 ms (protobuf). For 1,000 pods, 256 of 430 KB garbage per read are gone; that garbage
// caused a collector cycle every 100 reads, and the slowest reads (docs/adr/0032). Every other
// encoding, such as YAML, is the library's. The tests compare each byte with the library's
// encoders; a new field in the library's types fails them.
package valuelist
