// Package pushgateway serves the HTTP protocol of a Prometheus Pushgateway: groups are pushed, deleted, listed and exposed.
// Package group keeps them, package exposition reads and writes them. Here it is decided whose a group is.
package pushgateway
