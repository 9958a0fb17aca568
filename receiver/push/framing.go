package push

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// twoLengths says whether a request tells the length of its body twice, as chunks and as Content-Length. A proxy before us
// may have believed the other one, and what one of us takes for the body's rest, the other takes for the next request.
func twoLengths(h *fasthttp.RequestHeader) bool {
	if h.ContentLength() != chunkedBody { // fasthttp lets chunks win, whichever header comes first
		return false
	}
	for line := range bytes.Lines(h.RawHeaders()) {
		if key, _, _ := bytes.Cut(line, []byte{':'}); bytes.EqualFold(key, []byte(fasthttp.HeaderContentLength)) {
			return true
		}
	}
	return false
}

// chunkedBody is what fasthttp says of the length of a body in chunks.
const chunkedBody = -1

// ambiguousLength ends the connection too, as RFC 9112 wants in section 6.1.
func ambiguousLength() *fault {
	return &fault{
		status: fasthttp.StatusBadRequest, reason: "request", uncounted: true, close: true,
		message: "the request has Transfer-Encoding and Content-Length, which may contradict each other: send one of them",
	}
}
