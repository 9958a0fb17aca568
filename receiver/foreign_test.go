package receiver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/metric"
)

const hidden = "s3cr3t"

// A client of another protocol hears at once that the port is another. It costs one refusal, and none
// of its text is kept.
func TestClientsOfOtherProtocols(t *testing.T) {
	request := "POST /v1/samples HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + hidden + "\r\nX: x:1|c\r\n\r\nb:1|c\n"
	for name, c := range map[string]struct{ says, answer string }{
		"HTTP":                {request, "HTTP push has the address 10.0.0.1:9091"},
		"HTTP, a long line":   {"GET /?" + hidden + strings.Repeat("x", 4000) + " HTTP/1.1\r\n\r\n", "HTTP push has the address"},
		"HTTP, other methods": {"LIST /v1/keys HTTP/1.1\r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP, lower case":    {"get / HTTP/1.0\r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP, spaces":        {"GET  /a b HTTP/1.1 \r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP, an empty line": {"\r\nGET / HTTP/1.1\r\nCookie: " + hidden + "\r\n\r\n", "HTTP push has the address"},
		"HTTP/2":              {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, "HTTP push has the address"},
		"TLS":                 {"\x16\x03\x01\x02\x00" + hidden, ""},
		"PROXY, version 1":    {"PROXY TCP4 10.0.0.2 10.0.0.3 4321 8125\r\n" + hidden + ":1|c\n", ""},
		"PROXY, unknown":      {"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n" + hidden + ":1|c\n", ""},
		"PROXY, version 2":    {"\r\n\r\n\x00\r\nQUIT\n" + hidden, ""},
		"HTTP without an end": {"GET /?" + hidden + " HTTP/1.1", ""},
	} {
		for _, step := range []int{len(c.says), 1} {
			t.Run(name, func(t *testing.T) {
				config := testConfig(tcp)
				config.HTTPAddress = "10.0.0.1:9091"
				kept := record.NewRejections(nil)
				f := bindParts(t, config, func(p *Parts) { p.Rejections = kept }).run()
				conn := f.dial(0)
				for i := 0; i < len(c.says); i += step {
					if _, err := io.WriteString(conn, c.says[i:min(i+step, len(c.says))]); err != nil {
						break // it was answered before the end
					}
				}
				_ = conn.(*net.TCPConn).CloseWrite()
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				var answer string
				if c.answer != "" {
					got, err := http.ReadResponse(bufio.NewReader(conn), nil)
					must(t, err)
					body, _ := io.ReadAll(got.Body)
					if answer = string(body); got.StatusCode != http.StatusBadRequest {
						t.Error(got.Status)
					}
				}
				if !closedByServer(conn) || !strings.Contains(answer, c.answer) {
					t.Errorf("answer %q, want %q and the end", answer, c.answer)
				}
				f.stop()
				if f.received() != 1 || f.rejected(metric.Malformed) != 1 {
					t.Errorf("%d received, %d malformed; want one refusal", f.received(), f.rejected(metric.Malformed))
				}
				all := kept.All()
				if len(all) != 1 || all[0].Example != "" || strings.Contains(all[0].Message+all[0].Metric+f.log.String(), hidden) {
					t.Errorf("kept: %+v\nlog: %s", all, f.log)
				}
			})
		}
	}
}

// Metrics may have the names of requests, and lines may begin with an empty one.
func TestLinesThatLookForeign(t *testing.T) {
	f := serve(t, testConfig(tcp))
	for i, line := range []string{"GET /orders:1|c\n", "PROXY TCP:1|c\n", "\r\n\r\na:1|c\n", "P:1|c\n", "GET", "PUT /x HTTP/1.1:1|c\n", "jobs waiting:1|c\n", "jobs " + strings.Repeat("x", 200) + ":1|c\n", "\nQUERY time:1|c\n", strings.Repeat("\r\n", 8190) + "GET :1|c\n"} {
		conn := f.dial(0)
		f.send(conn, line)
		_ = conn.(*net.TCPConn).CloseWrite()
		if f.eventually("the line", func() bool { return f.received() == uint64(i+1) }); f.rejected(metric.Malformed) > 1 {
			t.Errorf("%q is rejected", line)
		}
	}
}
