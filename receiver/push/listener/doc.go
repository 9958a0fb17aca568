// Package listener accepts the connections of HTTP push, within limits, over TCP or TLS. A client
// that mistakes one for the other gets an answer that says so. The package knows nothing of
// requests.
package listener
