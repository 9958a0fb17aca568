package listener

import (
	"encoding/json"
	"fmt"

	"net/http"
)

type errorBody struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// refuseConnection returns a complete answer for a connection that is not served.
func refuseConnection(status int, reason, headers, message string) string {
	body, _ := json.Marshal(struct {
		Error errorBody `json:"error"`
	}{errorBody{reason, message}})
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), "application/json", len(body)+1, headers, body)
}

const soon = "Retry-After" + ": 1\r\n"

var (
	fullAnswer      = refuseConnection(http.StatusServiceUnavailable, "connections", soon, "connection limit reached: try again in a moment")
	fullIPAnswer    = refuseConnection(http.StatusTooManyRequests, "connections", soon, "connection limit of this address reached: use one connection for many requests")
	encryptedAnswer = refuseConnection(http.StatusBadRequest, "request", "", "this port is TLS: say https://, not http://")
	plainAnswer     = refuseConnection(http.StatusBadRequest, "request", "", "this port is plain HTTP: say http://, not https://")
)
