package push

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// asks sends one request with exactly these headers.
func (h *harness) asks(method, path, body string, headers ...string) int {
	h.Helper()
	c := h.dial()
	text := method + " " + path + " HTTP/1.1\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body
	write(h, c, text)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	must(h, err)
	_ = res.Body.Close()
	_ = c.Close()
	return res.StatusCode
}

// A page that is open in a browser on this machine must neither push, read nor delete.
func TestWebPages(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.AllowedHosts = []string{"sluice.test"} })
	if status, answer := h.do("PUT", "/v1/external/depth", "1"); status != 200 {
		t.Fatal(status, answer)
	}
	own := "Host: " + h.server.Addr().String()
	_, port, _ := strings.Cut(h.server.Addr().String(), ":")
	const evil = "Origin: https://evil.example"
	for _, c := range []struct {
		name    string
		status  int
		headers []string
	}{
		{"a page of another site", 403, []string{own, "Sec-Fetch-Site: cross-site", evil}},
		{"a cross-site request without Origin", 403, []string{own, "Sec-Fetch-Site: cross-site"}},
		{"a page of another port", 403, []string{own, "Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:3000"}},
		{"an older browser", 403, []string{own, evil}},
		{"a sandboxed page", 403, []string{own, "Origin: null"}},
		{"DNS rebinding", 403, []string{"Host: evil.example:" + port, "Sec-Fetch-Site: same-origin", "Origin: http://evil.example:" + port}},
		{"DNS rebinding, a name like localhost", 403, []string{"Host: localhost.evil.example"}},
		{"DNS rebinding, no port", 403, []string{"Host: evil.example"}},

		{"a page of ours", 200, []string{own, "Sec-Fetch-Site: same-origin", "Origin: http://" + h.server.Addr().String()}},
		{"an address that somebody typed", 200, []string{own, "Sec-Fetch-Site: none"}},
		{"localhost", 200, []string{"Host: localhost:" + port}},
		{"a name below localhost", 200, []string{"Host: sluice.localhost"}},
		{"localhost, written out", 200, []string{"Host: LOCALHOST.:" + port}},
		{"IPv6", 200, []string{"Host: [::1]:" + port}},
		{"IPv6 without a port", 200, []string{"Host: [::1]"}},
		{"another address", 200, []string{"Host: 192.0.2.7:" + port}},
		{"a name that is allowed", 200, []string{"Host: Sluice.Test:" + port}},
	} {
		for _, do := range [][3]string{
			{"POST", "/v1/statsd", "hits:1|c"}, {"PUT", "/v1/external/depth", "1"}, {"GET", "/v1/external/depth", ""},
			{"DELETE", "/metrics/job/j", ""}, {"GET", "/metrics", ""}, {"POST", "/api/v1/write", ""}, {"POST", "/v1/metrics", ""},
		} {
			got := h.asks(do[0], do[1], do[2], c.headers...)
			if refused := got == 403; refused != (c.status == 403) {
				t.Errorf("%s: %s %s: %d", c.name, do[0], do[1], got)
			}
		}
		if got := h.asks("GET", "/-/ready", "", c.headers...); got != 200 {
			t.Errorf("%s: /-/ready: %d", c.name, got)
		}
	}
	if got := h.table.get(metric.Object{}, "hits").whole; got != 9 {
		t.Errorf("%d hits of the 9 that are no page's", got)
	}
	if n := h.rejected(metric.Identity); n == 0 {
		t.Error("nothing of it is counted")
	}
}

// A request with a credential may come from any origin.
func TestWebPageWithCredential(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.BasicAuthFile = passwordFile(t, "anna", "open sesame") })
	const basic = "Authorization: Basic YW5uYTpvcGVuIHNlc2FtZQ=="
	if got := h.asks("POST", "/v1/statsd", "hits:1|c", "Host: sluice.example", "Sec-Fetch-Site: cross-site", basic); got != 200 {
		t.Errorf("with a password: %d", got)
	}
}

// The host of an absolute target counts, whatever Host says (RFC 9112, section 3.2.2).
func TestAbsoluteTargets(t *testing.T) {
	h := start(t)
	for target, want := range map[string]int{
		"http://evil.example/v1/external/depth": 403, "http://localhost/v1/external/depth": 404, "http://127.0.0.1:1/v1/external/depth": 404,
		"/v1/external/depth": 404,
	} {
		conn := h.dial()
		write(t, conn, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if res, answer := h.response(bufio.NewReader(conn)); res.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", target, res.StatusCode, answer, want)
		}
	}
}
