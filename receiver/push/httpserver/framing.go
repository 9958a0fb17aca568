package httpserver

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/valyala/fasthttp"
)

// twoLengths reports whether a request gives the length of its body twice, as chunks and as
// Content-Length. A proxy in front may have believed the other one: the rest of the body for one of
// the two is the next request for the other (request smuggling).
func twoLengths(h *fasthttp.RequestHeader) bool {
	if h.ContentLength() != chunkedBody { // fasthttp prefers chunks, whichever header is first
		return false
	}
	for line := range bytes.Lines(h.RawHeaders()) {
		if key, _, _ := bytes.Cut(line, []byte{':'}); bytes.EqualFold(key, []byte(fasthttp.HeaderContentLength)) {
			return true
		}
	}
	return false
}

// chunkedBody is fasthttp's length of a body in chunks.
const chunkedBody = -1

// ambiguousLength also closes the connection, as RFC 9112 requires in section 6.1.
func ambiguousLength() *Fault {
	return &Fault{
		Status: fasthttp.StatusBadRequest, Reason: "request", Uncounted: true, Close: true,
		Message: "the request has Transfer-Encoding and Content-Length, which may contradict each other: send one of them",
	}
}

// unframed words what is wrong with a request whose first line or headers fasthttp could not read.
func unframed(err error) string {
	for _, known := range framingFaults {
		if errors.Is(err, known.err) {
			return known.words
		}
	}
	if inner := errors.Unwrap(err); inner != nil { // the outer error is about the buffer
		err = inner
	}
	return string(Clip([]byte(strings.TrimPrefix(err.Error(), "fasthttp: "))))
}

var framingFaults = []struct {
	err   error
	words string
}{
	{fasthttp.ErrMissingRequestMethod, firstLine},
	{fasthttp.ErrUnsupportedRequestMethod, "its method has other characters than those of a token: " + firstLine},
	{fasthttp.ErrExtraWhitespaceInRequestLine, "its first line has more than two spaces: " + firstLine},
	{fasthttp.ErrEmptyRequestURI, "its path is empty: " + firstLine},
	{fasthttp.ErrDuplicateContentLength, "it has more than one Content-Length: send one"},
	{fasthttp.ErrNonNumericChars, "its Content-Length is not a number of bytes"},
	{fasthttp.ErrUnsupportedTransferEncoding, "its Transfer-Encoding is not chunked, which alone is understood"},
	{fasthttp.ErrNeedMore, "it ends before its headers do: an empty line follows them"},
	{io.ErrUnexpectedEOF, "it ends before its headers do: an empty line follows them"},
}

const firstLine = `want a first line as in "PUT /v1/external/orders HTTP/1.1"`
