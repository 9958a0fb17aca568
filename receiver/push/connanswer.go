package push

import (
	"encoding/json"
	"fmt"

	"github.com/valyala/fasthttp"
)

type errorBody struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// refuseConnection is a whole answer for a connection that nobody will serve.
func refuseConnection(status int, reason, headers, message string) string {
	body, _ := json.Marshal(struct {
		Error errorBody `json:"error"`
	}{errorBody{reason, message}})
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s\n",
		status, fasthttp.StatusMessage(status), "application/json", len(body)+1, headers, body)
}

const soon = fasthttp.HeaderRetryAfter + ": 1\r\n"

var (
	fullAnswer      = refuseConnection(fasthttp.StatusServiceUnavailable, "connections", soon, "there are as many connections as the server takes: come again in a moment")
	fullIPAnswer    = refuseConnection(fasthttp.StatusTooManyRequests, "connections", soon, "there are as many connections from this address as the server takes: use one for many requests")
	encryptedAnswer = refuseConnection(fasthttp.StatusBadRequest, "request", "", "this port is TLS: say https://, not http://")
	plainAnswer     = refuseConnection(fasthttp.StatusBadRequest, "request", "", "this port is plain HTTP: say http://, not https://")
)
