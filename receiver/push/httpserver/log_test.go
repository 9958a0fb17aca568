package httpserver

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestLibraryLogIsQuotedOnceAndLimited(t *testing.T) {
	var seen bytes.Buffer
	l := &libraryLog{log: slog.New(slog.NewTextHandler(&seen, nil))}
	for range 1000 {
		l.Printf("error %s", "a\x1b[31m\nb"+strings.Repeat("x", 10_000))
	}
	text := strings.TrimSuffix(seen.String(), "\n")
	if strings.ContainsAny(text, "\x1b\n") || len(text) > 2*maxLogged || !strings.Contains(text, `error="error a\x1b[31m\nbxx`) {
		t.Errorf("%q", text)
	}
}

// said is a connection on which all was said.
type said struct {
	net.Conn // nil
	io.Reader
}

func (s *said) Read(to []byte) (int, error)    { return s.Reader.Read(to) }
func (*said) Write(text []byte) (int, error)   { return len(text), nil }
func (*said) Close() error                     { return nil }
func (*said) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*said) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*said) SetDeadline(time.Time) error      { return nil }
func (*said) SetReadDeadline(time.Time) error  { return nil }
func (*said) SetWriteDeadline(time.Time) error { return nil }

// Clients of other protocols send credentials where a request belongs.
func TestClientsOfOtherProtocolsAreNotQuoted(t *testing.T) {
	var seen bytes.Buffer
	library := &libraryLog{log: slog.New(slog.NewTextHandler(&seen, nil))}
	library.Interval = 1
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, Logger: library, SecureErrorLogMessage: true}
	for _, sent := range []string{
		"AUTH hunter2\r\nPING\r\n", "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n", "GET /?access_token=hunter2\r\n", "a1 LOGIN user hunter2\r\n",
		"USER bob\r\nPASS hunter2\r\n", "CONNECT {\"user\":\"u\",\"pass\":\"hunter2\"}\r\n", "EHLO x\r\nAUTH LOGIN hunter2\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nhunter2", "\x10\x17\x00\x04MQTT\x04\xc2hunter2", "\x16\x03\x01\x00\x07hunter2", "PROXY TCP4 hunter2\r\n",
		"GET / HTTP/1.1\r\nhunter2\r\n\r\n", "GET / HTTP/1.1\r\nA b: hunter2\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: hunter2\r\n\r\n",
		"GET / HTTP/1.1\r\nTransfer-Encoding: hunter2\r\n\r\n", "GET / HTTP/hunter2\r\n\r\n", "GET \"hunter2\\\" HTTP/1.1\r\n\r\n",
		"GET " + strings.Repeat("hunter2 ", 1000), "hunter2\r\n\r\n", "hunter2 / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	} {
		if err := server.ServeConn(&said{Reader: strings.NewReader(sent)}); err != nil { // as a listener's connections are logged
			library.Printf("error when serving connection %q<->%q: %v", "127.0.0.1:9091", "127.0.0.1:2", err)
		}
	}
	if text := seen.String(); strings.Contains(text, "hunter2") || strings.Count(text, `127.0.0.1:9091\"<->\"127.0.0.1:2`) < 10 || !strings.Contains(text, `request \"***\"`) {
		t.Error(text)
	}
}
