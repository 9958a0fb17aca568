package push

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A request has few headers, with its cookies and trailers, and no body is awaited where they are more.
func TestHeadersAreFew(t *testing.T) {
	const push, chunks = "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\n", "Transfer-Encoding: chunked\r\n\r\n1\r\n5\r\n0\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"enough":                   {push + strings.Repeat("X:y\r\n", 90) + "Content-Length: 1\r\n\r\n5", 200},
		"headers":                  {push + strings.Repeat("X:y\r\n", 100) + "Content-Length: 1\r\n\r\n", 431},
		"headers that end in \\n":  {push + strings.Repeat("X:\n", 5000) + "Content-Length: 1\r\n\r\n", 431},
		"of a HEAD":                {"HEAD / HTTP/1.0\r\n" + strings.Repeat("X:y\r\n", 101) + "\r\n", 431},
		"before 100-continue":      {push + strings.Repeat("X:y\r\n", 100) + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n", 431},
		"cookies":                  {push + "Cookie: " + strings.Repeat("a;", 100) + "\r\n" + chunks + "\r\n", 431},
		"announced trailers":       {push + "Trailer: " + strings.Repeat("a,", 100) + "\r\n" + chunks + "\r\n", 431},
		"trailers, enough":         {push + chunks + strings.Repeat("X:y\r\n", 90) + "\r\n", 200},
		"trailers":                 {push + chunks + strings.Repeat("X:\n", 5000) + "X:\r\n\r\n", 431},
		"trailers of one name":     {push + "Trailer: X\r\n" + chunks + strings.Repeat("X:y\r\n", 101) + "\r\n", 431},
		"trailers and headers":     {push + strings.Repeat("X:y\r\n", 60) + chunks + strings.Repeat("X:y\r\n", 60) + "\r\n", 431},
		"trailers, and cookies":    {push + "Cookie: " + strings.Repeat("a;", 90) + "\r\n" + chunks + strings.Repeat("X:y\r\n", 99) + "\r\n", 431},
		"trailers of another POST": {strings.Replace(push, "PUT", "POST", 1) + chunks + strings.Repeat("X:y\r\n", 101) + "\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			conn := h.dial()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			write(t, conn, c.request)
			r := bufio.NewReader(conn)
			res, answer := h.response(r)
			if res.StatusCode != c.status || res.Close != (c.status == 431) {
				t.Errorf("%d, close=%v: %s; want %d", res.StatusCode, res.Close, answer, c.status)
			}
			if c.status == 431 && (h.table.count() > 0 || !strings.Contains(answer, "100 headers, cookies and trailers")) {
				t.Errorf("%d applied: %s", h.table.count(), answer)
			}
		})
	}
}

// Connections whose requests took much memory keep little of it.
func TestConnectionsKeepLittle(t *testing.T) {
	const connections, most = 100, 72 << 10
	get := func(target, headers string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n"
	}
	var places, parts []string
	for i := range 90 { // the longest header is in another place each time
		places = append(places, get("/", strings.Repeat("X:y\r\n", i)+"X: "+strings.Repeat("y", 2000)+"\r\n"))
	}
	for range 3 {
		long := strings.Repeat("x", 14<<10)
		parts = append(parts, get("/"+long, ""), get("/?"+long, ""), get("/", "User-Agent: "+long+"\r\n"), get("/", "Content-Type: "+long+"\r\n"),
			get("/", "Referer: "+long+"\r\n"), get("http://a:"+long+"@a/", ""), get("http://"+long+"/", ""), strings.Replace(get("/", ""), "GET", long, 1))
	}
	few := strings.Repeat("a&", 1800) // whose memory is not dropped after the second request
	many := start(t)
	for i := range 50 {
		many.wants(200, "", "PUT", fmt.Sprintf("/v1/external/m?label=a=%01000d", i), "1")
	}
	for name, requests := range map[string][]string{
		"parameters of lists":         {get("/v1/namespaces?"+strings.Repeat("a&", 8000), "")},
		"parameters of lists, few":    {get("/v1/namespaces?"+few, ""), get("/v1/namespaces?"+few, "")},
		"parameters of all series":    {get("/metrics/series?"+few, ""), get("/metrics/series?"+few, "")},
		"headers in different places": places,
		"parts of the first line":     parts,
		"a large answer":              {get("/v1/external/m", "")},
	} {
		t.Run(name, func(t *testing.T) {
			before := memoryInUse()
			for range connections {
				conn := many.dial()
				for _, request := range requests {
					write(t, conn, request)
					res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
					must(t, err)
					_, err = io.Copy(io.Discard, res.Body)
					must(t, err)
					if res.Close {
						t.Fatalf("%.60q: %s", request, res.Status)
					}
				}
			}
			if each := (memoryInUse() - before) / connections; each > most {
				t.Errorf("%d KiB are kept for each connection", each>>10)
			}
		})
	}
}

// A long head counts as a part of the body's memory.
func TestLongHeadsCountAsBodies(t *testing.T) {
	const head, body, free = 12 << 10, 40 << 10, 32 << 10 // the body is in a buffer of 64 KiB
	const several = 4                                     // of which the first has what is free of their share
	h := start(t)
	var all [several]socket
	for i := range all {
		all[i] = h.dial()
		write(t, all[i], "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", head)+"\r\nContent-Length: 50000\r\n\r\n"+strings.Repeat("1", body))
	}
	waitFor(t, func() bool { return h.server.Reserved() > several*2*head-free })
	for _, conn := range all {
		must(t, conn.CloseWrite())
	}
	waitFor(t, func() bool { return h.server.Reserved() == 0 })
}

// What fasthttp asks of a request after its answer is there, though the request's memory was dropped.
func TestDroppedRequestsAreAnswered(t *testing.T) {
	h := start(t)
	conn := h.dial()
	r := bufio.NewReader(conn)
	for range 3 {
		write(t, conn, "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\nX: "+strings.Repeat("x", 10<<10)+"\r\n\r\n")
		res, err := http.ReadResponse(r, &http.Request{Method: http.MethodHead})
		must(t, err)
		if res.StatusCode != 200 || res.Header.Get("Connection") != "keep-alive" || res.ContentLength <= 0 || r.Buffered() > 0 {
			t.Errorf("%s %v, and %d bytes", res.Status, res.Header, r.Buffered())
		}
	}
}

// memoryInUse is that of the heap and of stacks.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // what is in pools lasts for one more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
