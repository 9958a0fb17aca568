package push

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

func limit(n int) func(*Config, *Parts) {
	return func(c *Config, _ *Parts) { c.MaxBodyBytes = n }
}

// chunked hides the length from net/http, which then sends chunks.
type chunked struct{ io.Reader }

func lineBody(n int) string {
	return strings.Repeat(`{"name":"m","type":"counter","value":1}`+"\n", n)
}

func TestBodyOverTheLimit(t *testing.T) {
	h := start(t, limit(10_000))
	for name, body := range map[string]io.Reader{
		"announced":          strings.NewReader(lineBody(1000)),
		"chunked":            chunked{strings.NewReader(lineBody(1000))},
		"by a byte":          strings.NewReader(lineBody(250) + strings.Repeat("\n", 1)),
		"chunked, by a byte": chunked{strings.NewReader(lineBody(250) + "\n")},
	} {
		before := h.rejected(metric.TooLong)
		res, answer := h.send("POST", "/v1/samples", body)
		if res.StatusCode != 413 || !strings.Contains(answer, "10000") {
			t.Errorf("%s: %d %s", name, res.StatusCode, answer)
		}
		if h.rejected(metric.TooLong) != before+1 {
			t.Errorf("%s: not once in the ledger", name)
		}
	}
	if h.table.count() != 0 {
		t.Error("lines of a body that was too large were applied")
	}
	for _, body := range []io.Reader{strings.NewReader(lineBody(250)), chunked{strings.NewReader(lineBody(250))}} {
		if res, answer := h.send("POST", "/v1/samples", body); res.StatusCode != 200 || !strings.Contains(answer, `"applied":250`) {
			t.Errorf("exactly the limit: %d %s", res.StatusCode, answer)
		}
	}
}

// A decompressed body has a limit of its own, above or below that of the wire.
func TestDecompressedBodyOverItsLimit(t *testing.T) {
	for _, c := range []struct {
		wire, plain, lines, status int
		says                       string
	}{
		{10_000, 20_000, 500, 200, `"applied":500`},
		{10_000, 20_000, 501, 413, "the decompressed body has more than 20000 bytes"},
		{10_000, 4_000, 101, 413, "the decompressed body has more than 4000 bytes"},
		{10_000, 0, 251, 413, "the decompressed body has more than 10000 bytes"},
		{100, 20_000, 500, 413, "the body has more than 100 bytes"},
	} {
		h := start(t, func(cfg *Config, _ *Parts) { cfg.MaxBodyBytes, cfg.MaxDecompressedBytes = c.wire, c.plain })
		for _, coding := range []string{"gzip", "deflate", "snappy"} {
			res, answer := h.send("POST", "/v1/samples", strings.NewReader(compressed(t, coding, lineBody(c.lines))), "Content-Encoding", coding)
			if res.StatusCode != c.status || !strings.Contains(answer, c.says) {
				t.Errorf("%s, %+v: %d %s", coding, c, res.StatusCode, answer)
			}
		}
	}
}

func TestContentEncodings(t *testing.T) {
	h := start(t, limit(100_000))
	for round := range 3 { // decoders are used again
		for _, coding := range []string{"gzip", "X-GZIP", "deflate", "zstd", "identity"} {
			encode := func(text string) string {
				return compressed(t, strings.TrimPrefix(strings.ToLower(coding), "x-"), text)
			}
			res, answer := h.send("POST", "/v1/samples", strings.NewReader(encode(lineBody(500))), "Content-Encoding", coding)
			if res.StatusCode != 200 || !strings.Contains(answer, `"applied":500`) {
				t.Errorf("round %d %s: %d %s", round, coding, res.StatusCode, answer)
			}
			if coding == "identity" {
				continue
			}
			res, answer = h.send("POST", "/v1/samples", strings.NewReader(encode(lineBody(5000))), "Content-Encoding", coding)
			if res.StatusCode != 413 || !strings.Contains(answer, "decompressed") || !strings.Contains(answer, "100000") {
				t.Errorf("round %d %s: %d %s", round, coding, res.StatusCode, answer)
			}
			before := h.rejected(metric.Malformed)
			for _, broken := range []string{"", "not compressed", encode(lineBody(500))[:30]} {
				res, answer = h.send("POST", "/v1/samples", strings.NewReader(broken), "Content-Encoding", coding)
				if broken == "" && coding == "zstd" { // no frame at all is an empty body
					continue
				}
				if res.StatusCode != 400 || !strings.Contains(answer, "Content-Encoding") {
					t.Errorf("round %d %s of %q: %d %s", round, coding, broken, res.StatusCode, answer)
				}
			}
			if got := h.rejected(metric.Malformed) - before; got < 2 || got > 3 {
				t.Errorf("%s: %d in the ledger", coding, got)
			}
		}
	}
	h.wants(415, "gzip, deflate, snappy, zstd", "PUT", "/v1/external/m", "1", "Content-Encoding", "br")
}

// A bomb of 96 MiB costs no more memory than the limit allows.
func TestBombCostsTheLimit(t *testing.T) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range 96 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	h := start(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	res, answer := h.send("POST", "/v1/samples", bytes.NewReader(b.Bytes()), "Content-Encoding", "gzip")
	runtime.ReadMemStats(&after)
	if res.StatusCode != 413 {
		t.Error(res.StatusCode, answer)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*8<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}

func TestBodiesInFlightAreBounded(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.MaxBodyBytes, c.MaxBufferedBytes = 1<<20, 2<<20 })
	_ = h.server.Reserve(2 << 20)
	res, answer := h.send("POST", "/v1/samples", strings.NewReader(lineBody(10_000)))
	if res.StatusCode != 503 || !strings.Contains(answer, `"reason":"busy"`) || res.Header.Get("Retry-After") == "" {
		t.Error(res.StatusCode, answer)
	}
	if status, answer := h.do("POST", "/v1/external/m", "1"); status != 200 { // small ones always pass
		t.Error(status, answer)
	}
	_ = h.server.Reserve(-2 << 20)
	h.wants(200, "", "POST", "/v1/samples", lineBody(10_000))
}

// response reads one answer off a raw connection.
func (h *harness) response(r *bufio.Reader) (*http.Response, string) {
	h.Helper()
	res, err := http.ReadResponse(r, nil)
	must(h, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(h, err)
	h.checkAnswer(res, string(text))
	return res, string(text)
}

// A body whose client went away is not applied: not the 123 of a 12345, not the lines before the
// cut.
func TestBodyCutShort(t *testing.T) {
	for name, request := range map[string]string{
		"length":          "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n123",
		"in a chunk":      "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
		"behind a chunk":  "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n",
		"in a chunk size": "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n0",
		"before trailer":  "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n",
		"bad chunk":       "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n123\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			c := h.dial()
			write(t, c, request)
			_ = c.CloseWrite()
			res, answer := h.response(bufio.NewReader(c))
			if res.StatusCode != 400 || h.table.count() != 0 || h.rejected(metric.Malformed) != 1 || h.server.Account().Received() != 1 {
				t.Errorf("%d %s, %d applied, %d malformed", res.StatusCode, answer, h.table.count(), h.rejected(metric.Malformed))
			}
		})
	}
}

// The rest of a body that was not read is not the next request.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	inner := "PUT /v1/external/smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1"
	for _, outer := range []string{
		"GET /v1/external/m HTTP/1.1", "DELETE /v1/external/m HTTP/1.1", "POST /nowhere HTTP/1.1", "PATCH /v1/samples HTTP/1.1", "PUT /v1/external/m:p95 HTTP/1.1",
	} {
		for _, framing := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		} {
			h := start(t)
			c := h.dial()
			write(t, c, outer+"\r\nHost: a\r\n"+framing)
			r := bufio.NewReader(c)
			h.response(r)
			if rest, _ := io.ReadAll(r); len(rest) > 0 || h.table.count() != 0 {
				t.Errorf("%s: then %q", outer, rest)
			}
		}
	}
}

func TestPipelinedRequests(t *testing.T) {
	h := start(t)
	c := h.dial()
	write(t, c, strings.Repeat("POST /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n10", 50))
	r := bufio.NewReader(c)
	for range 50 {
		if res, answer := h.response(r); res.StatusCode != 200 {
			t.Fatal(res.StatusCode, answer)
		}
	}
	if got := h.table.get(global, "m").whole; got != 500 {
		t.Errorf("%d, want 500", got)
	}
}

// A client that sends a byte now and then is cut off after ReadTimeout, in its headers and in its
// body.
func TestSlowLorisIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		head   string
		ledger uint64
	}{
		"headers": {"PUT /v1/external/m HTTP/1.1\r\nHost: ", 0},
		"body":    {"PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n1", 1},
		"chunks":  {"PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				h := start(t, inMemory)
				conn := h.dial()
				begin := time.Now()
				write(t, conn, c.head)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						if _, err := io.WriteString(conn, "1"); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
				res, answer := h.response(bufio.NewReader(conn))
				if took := time.Since(begin); res.StatusCode != 408 || took != DefaultConfig().ReadTimeout {
					t.Errorf("%d %s after %v", res.StatusCode, answer, took)
				}
				<-done // the connection is gone
				if h.table.count() != 0 || h.rejected(metric.Malformed) != c.ledger {
					t.Errorf("%d applied, %d malformed", h.table.count(), h.rejected(metric.Malformed))
				}
			})
		})
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h := start(t, inMemory)
		c := h.dial()
		write(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		r := bufio.NewReader(c)
		h.response(r)
		idle := time.Now()
		rest, err := io.ReadAll(r)
		if took := time.Since(idle); err != nil || len(rest) > 0 || took != DefaultConfig().IdleTimeout {
			t.Errorf("%q %v after %v", rest, err, took)
		}
	})
}

func TestRequestsThatAreNotHTTP(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.MaxHeaderBytes = 4096 })
	for request, status := range map[string]int{
		"nonsense\r\n\r\n": 400,
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\r\n\r\n":                          400,
		"GET / FTP/1.1\r\n\r\n":                                                     400,
		"GET /v1/external/a\x01b HTTP/1.1\r\nHost: a\r\n\r\n":                       400,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n": 431,
		"GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: a\r\n\r\n":        431,
	} {
		c := h.dial()
		write(t, c, request)
		res, answer := h.response(bufio.NewReader(c))
		if res.StatusCode != status {
			t.Errorf("%.30q: %d %s, want %d", request, res.StatusCode, answer, status)
		}
	}
	if strings.Contains(h.logs.String(), "\x16") {
		t.Error("a client's bytes are in the log")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*Config, *Parts)
		status int
	}{
		"in all":           {func(c *Config, _ *Parts) { c.MaxConnections = 2 }, 503},
		"from one address": {func(c *Config, _ *Parts) { c.MaxConnsPerIP = 2 }, 429},
	} {
		t.Run(name, func(t *testing.T) {
			slow := make(chan struct{})
			h := start(t, c.set)
			h.table.slow = slow
			a, b := h.dial(), h.dial()
			for _, conn := range []io.ReadWriter{a, b} {
				write(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				h.response(bufio.NewReader(conn))
				write(t, conn, "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1")
			}
			waitFor(t, func() bool { return h.table.waiting.Load() == 2 })
			third := h.dial()
			if res, answer := h.response(bufio.NewReader(third)); res.StatusCode != c.status || !strings.Contains(answer, `"reason":"connections"`) {
				t.Error(res.StatusCode, answer)
			}
			close(slow)
			h.response(bufio.NewReader(a))
			h.response(bufio.NewReader(b))
			for range 4 { // idle ones yield
				next := h.dial()
				write(t, next, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if res, _ := h.response(bufio.NewReader(next)); res.StatusCode != 200 {
					t.Error(res.StatusCode)
				}
			}
		})
	}
}

func TestExpectContinue(t *testing.T) {
	h := start(t, limit(10_000))
	c := h.dial()
	r := bufio.NewReader(c)
	write(t, c, "POST /v1/samples HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 40\r\n\r\n")
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatal(line, err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatal(line, err)
	}
	write(t, c, lineBody(1))
	if res, answer := h.response(r); res.StatusCode != 200 {
		t.Error(res.StatusCode, answer)
	}
	// On the same connection: refused before the body is sent.
	write(t, c, "POST /v1/samples HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10001\r\n\r\n")
	if res, answer := h.response(r); res.StatusCode != 413 || !strings.Contains(answer, "10000") {
		t.Error(res.StatusCode, answer)
	}
	if h.rejected(metric.TooLong) != 1 || h.server.Account().Applied() != 1 {
		t.Error("the ledger is wrong")
	}
}

// curl sends Expect: 100-continue with a body over 1 MiB. The server reads the last body to its end,
// so that curl is done before the connection is closed.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	h := start(t)
	file := filepath.Join(t.TempDir(), "body")
	for _, c := range []struct {
		lines  int
		status string
	}{{1, "200"}, {60_000, "200"}, {220_000, "413"}} {
		must(t, os.WriteFile(file, []byte(lineBody(c.lines)), 0o600))
		for _, more := range []string{"Expect: 100-continue", "Transfer-Encoding: chunked", "X-None: x"} {
			out, err := exec.Command(curl, "--silent", "--show-error", "--max-time", "600", "--expect100-timeout", "600", "--header", more, "--noproxy", "*",
				"--data-binary", "@"+file, "--write-out", "%{http_code}", h.url+"/v1/samples").CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), c.status) {
				t.Errorf("%d lines, %s: %s %v", c.lines, more, out, err)
			}
		}
	}
	if got, want := h.table.get(global, "m").whole, int64(3*60_001); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

// A body that is announced too large is refused at once, not when it has come.
func TestAnnouncedBodyIsNotWaitedFor(t *testing.T) {
	h := start(t)
	c := h.dial()
	write(t, c, "POST /v1/samples HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nx")
	if res, answer := h.response(bufio.NewReader(c)); res.StatusCode != 413 || !res.Close {
		t.Error(res.StatusCode, answer)
	}
}
