// Package listener accepts the connections of HTTP push: within limits, over TCP or TLS, and with an answer for a client
// that mistakes one for the other. It knows nothing of requests.
package listener
