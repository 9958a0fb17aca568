// Package pushgateway serves the HTTP protocol of a Prometheus Pushgateway: it pushes, deletes,
// lists and exposes groups. Package group keeps them, package exposition reads and writes them.
// This package decides to which object or namespace a group belongs.
package pushgateway
