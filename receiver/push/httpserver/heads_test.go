package httpserver

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/valyala/fasthttp"
)

// piped is a listener of one connection, whose client is in this process.
type piped struct {
	net.Listener // nil
	conn         net.Conn
}

func (p *piped) Accept() (net.Conn, error) { return halved{p.conn}, nil }
func (*piped) Close() error                { return nil }
func (*piped) Addr() net.Addr              { return &net.TCPAddr{} }

type halved struct{ net.Conn }

func (halved) CloseWrite() error { return nil }

// The memory of a head does not stay with the library where the server is not asked any more, or was not asked at all.
func TestHeadsAreDropped(t *testing.T) {
	long := "X: " + strings.Repeat("a", keptHeads/2) + "\r\n"
	for name, request := range map[string]string{
		"the client goes, and is not asked for its body": "PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n" + long + "\r\n",
		"the client goes before its body":                "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n" + long + "\r\n",
		"the body is refused":                            "PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n" + long + "\r\n",
		"the URI is none":                                "GET http://a:b/ HTTP/1.1\r\nHost: a\r\n" + long + "\r\n",
		"the client goes before its answer":              "GET /a HTTP/1.1\r\nHost: a\r\n" + long + "\r\n",
	} {
		client, conn := net.Pipe()
		s, err := New(DefaultConfig(), Parts{Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler), Listener: &piped{conn: conn}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.listener.Close() }()
		var seen *fasthttp.RequestHeader
		s.http.HeaderReceived = func(h *fasthttp.RequestHeader) fasthttp.RequestConfig { seen = h; return dropCrowd(h) }
		accepted, err := s.listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(client, request)
			_ = client.Close()
		}()
		_ = s.http.ServeConn(accepted)
		if seen == nil || cap(seen.RawHeaders()) > 0 {
			t.Errorf("%s: the head is kept", name)
		}
	}
}
