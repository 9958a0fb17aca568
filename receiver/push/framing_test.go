package push

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A body's length is believed only if all headers agree on it. After an answer with closes, nothing
// else is read from the connection: the following bytes may be somebody's body.
func TestFraming(t *testing.T) {
	const put, next = "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\n", "GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		closes  bool
	}{
		"Content-Length":                  {put + "Content-Length: 1\r\n\r\n5", 200, false},
		"chunks":                          {put + "Transfer-Encoding: chunked\r\n\r\n1\r\n5\r\n0\r\n\r\n", 200, false},
		"chunks with more":                {put + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1;a=b\r\n5\r\n0\r\nX: y\r\n\r\n", 200, false},
		"both, chunks last":               {put + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", 400, true},
		"both, chunks first":              {put + "Transfer-Encoding: chunked\r\ncontent-length: 1\r\n\r\n1\r\n5\r\n0\r\n\r\n", 400, true},
		"both, of a GET":                  {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, true},
		"Content-Length twice":            {put + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n5", 400, true},
		"Content-Length, a list":          {put + "Content-Length: 1, 1\r\n\r\n5", 400, true},
		"Content-Length with a sign":      {put + "Content-Length: +1\r\n\r\n5", 400, true},
		"another Transfer-Encoding":       {put + "Transfer-Encoding: gzip, chunked\r\n\r\n1\r\n5\r\n0\r\n\r\n", 400, true},
		"Transfer-Encoding twice":         {put + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n1\r\n5\r\n0\r\n\r\n", 400, true},
		"a space before the colon":        {put + "Transfer-Encoding : chunked\r\n\r\n1\r\n5\r\n0\r\n\r\n", 400, true},
		"chunks in HTTP/1.0":              {"PUT /v1/external/m HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n5\r\n0\r\n\r\n", 400, true},
		"a chunk of no size":              {put + "Transfer-Encoding: chunked\r\n\r\nzz\r\n5\r\n0\r\n\r\n", 400, true},
		"a chunk beyond any size":         {put + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n5\r\n0\r\n\r\n", 400, true},
		"two Hosts":                       {put + "Host: b\r\nContent-Length: 1\r\n\r\n5", 400, true},
		"an encoding twice":               {put + "Content-Encoding: identity\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\n5", 415, false},
		"an encoding behind an empty one": {put + "Content-Encoding: \r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\n5", 415, false},
		"the body of a GET":               {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET ", 200, true},
		"a body that nobody wants":        {"PUT /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET ", 404, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			c1 := h.dial()
			write(t, c1, c.request+next)
			r := bufio.NewReader(c1)
			if res, answer := h.response(r); res.StatusCode != c.status || res.Close != c.closes {
				t.Errorf("%d, close=%v: %s; want %d, close=%v", res.StatusCode, res.Close, answer, c.status, c.closes)
			}
			if !c.closes {
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != 200 {
					t.Errorf("the request behind it: %v %v", res, err)
				}
				return
			}
			if rest, _ := io.ReadAll(r); strings.Contains(string(rest), "HTTP/1.1") {
				t.Errorf("something behind it was answered: %s", rest)
			}
		})
	}
}

// A fault of a request that is not HTTP is reported in Sluice's words.
func TestFramingFaultsAreNamed(t *testing.T) {
	const put = "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\n"
	for request, want := range map[string]string{
		"nonsense\r\n\r\n":       `want a first line as in \"PUT /v1/external/orders HTTP/1.1\"`,
		"P@T / HTTP/1.1\r\n\r\n": `its method has other characters`,
		"GET / FTP/1.1\r\n\r\n":  `unsupported http version \"FTP/1.1\"`,
		put + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n5":   "it has more than one Content-Length",
		put + "Content-Length: 1x\r\n\r\n5":                       "its Content-Length is not a number of bytes",
		put + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n": "its Transfer-Encoding is not chunked",
		put + "X : secret\r\n\r\n":                                `invalid header key \"X \"`,
		put + "X: a\x00b\r\n\r\n":                                 "invalid header value",
	} {
		h := start(t)
		conn := h.dial()
		write(t, conn, request)
		res, answer := h.response(bufio.NewReader(conn))
		if res.StatusCode != 400 || !strings.Contains(answer, "the request is not HTTP/1.1: ") || !strings.Contains(answer, want) {
			t.Errorf("%q: %d %s, want %q", request, res.StatusCode, answer, want)
		}
		for _, not := range []string{"fasthttp", "buffer", "when reading"} {
			if strings.Contains(answer, not) {
				t.Errorf("%q: the library's own words are in %s", request, answer)
			}
		}
	}
}
