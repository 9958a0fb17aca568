package adapter

import (
	"net/http"
	"time"
)

// impatient cuts off a client that does not read its answer: it would hold its place among the requests in flight, and
// the answer's memory, for as long as it likes.
func writeTimeout(next http.Handler, patience time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Both versions of HTTP can; a recorder in a test cannot, and has no need.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		next.ServeHTTP(w, r)
	})
}
