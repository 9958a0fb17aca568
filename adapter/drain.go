package adapter

import (
	"io"
	"net/http"
	"time"
)

const (
	drainBytes = 64 << 10
	drainTime  = time.Second
)

// drained reads the body of an HTTP/2 request, which nothing here wants, before the request is answered. An
// answer to a request whose body is still on its way resets the stream, and the library closes the connection of
// whoever is anonymous after each answer: between the two, clients such as curl lose the answer's body. For
// HTTP/1 net/http does the same by itself.
func drainBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if control.SetReadDeadline(time.Now().Add(drainTime)) == nil {
				_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
				_ = control.SetReadDeadline(time.Time{})
			}
		}
		next.ServeHTTP(w, r)
	})
}
