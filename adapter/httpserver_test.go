package adapter

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Strangers' headers of a byte each, which the library keeps in forty, take little memory if they do not end, and none once
// they are too many.
func TestCompressedHeadersThatNeverEnd(t *testing.T) {
	a := start(t, shop())
	const connections = 100
	before := heapInUse()
	var open []*http2.Framer
	for range connections {
		frames, _ := a.unread(t)
		must(t, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: append(manyHeaders(t, 0), bytes.Repeat([]byte{emptyHeader}, 8<<10)...)}))
		open = append(open, frames)
	}
	for _, frames := range open {
		for frame := http2.Frame(nil); frame == nil || !frame.Header().Flags.Has(http2.FlagSettingsAck); { // the connection is being read
			var err error
			frame, err = frames.ReadFrame()
			must(t, err)
		}
	}
	if took := heapInUse() - before; took > connections*300<<10 {
		t.Errorf("%d KiB are held for each of %d connections", took/connections>>10, connections)
	}
}

// emptyHeader is accept-charset without a value (RFC 7541, appendix A).
const emptyHeader = 0x80 | 15

// manyHeaders is a block of a request with n empty headers.
func manyHeaders(t *testing.T, n int) []byte {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: "/"}} {
		must(t, encoder.WriteField(field))
	}
	return append(block.Bytes(), bytes.Repeat([]byte{emptyHeader}, n)...)
}

// What net/http answers itself has an end, too, where the client does not read it.
func TestRefusalsOfTheLibraryEnd(t *testing.T) {
	a := start(t, shop(), func(c *Config) { c.RequestTimeout = time.Second })
	frames, conn := a.unread(t)
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	must(t, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: manyHeaders(t, maxHeader/32)}))
	for {
		frame, err := frames.ReadFrame()
		must(t, err)
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			fields, err := hpack.NewDecoder(4096, nil).DecodeFull(frame.HeaderBlockFragment())
			must(t, err)
			if fields[0].Value != "431" {
				t.Errorf("%v", fields)
			}
		case *http2.RSTStreamFrame:
			return
		}
	}
}

// net/http answers an unknown expectation itself, and then awaits the body. OPTIONS * comes to the handlers.
func TestRequestsThatTheLibraryAnswers(t *testing.T) {
	server := prepared(t, Parts{}, anonymousAccess())
	server.http.server.ReadTimeout = 50 * time.Millisecond
	a := running(t, server)
	for head, want := range map[string]int{
		"OPTIONS * HTTP/1.1\r\nConnection: close\r\n":                             http.StatusNotFound,
		"GET /livez HTTP/1.1\r\nExpect: something-else\r\nContent-Length: 10\r\n": http.StatusExpectationFailed,
	} {
		conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		must(t, err)
		defer conn.Close() // after the stop of the server
		_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
		_, err = io.WriteString(conn, head+"Host: a\r\n\r\n")
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if resp.StatusCode != want {
			t.Errorf("%q: %s, want %d", head, resp.Status, want)
		}
		_, err = io.Copy(io.Discard, conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the connection goes on", head)
		}
	}
}
