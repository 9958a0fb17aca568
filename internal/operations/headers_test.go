package operations

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// listening is a server that does not run yet.
func listening(t *testing.T) *Server {
	t.Helper()
	server, err := Listen(Config{Address: "127.0.0.1:0"}, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	must(t, err)
	return server
}

// A request whose body never comes keeps no headers once it was handled, and its connection ends.
func TestBodiesThatNeverCome(t *testing.T) {
	for _, headers := range []int{0, 100, 1000} {
		server := listening(t)
		server.http.ReadTimeout /= 100
		var kept atomic.Int64
		answer := server.http.Handler
		server.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer.ServeHTTP(w, r)
			kept.Add(int64(len(r.Header) + len(r.Trailer) + len(r.RequestURI)))
		})
		serving(t, server)
		conn := dialFrom(t, server, net.IPv4(127, 0, 0, 1))
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, err := io.WriteString(conn, "POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: A, B\r\n"+manyHeaders(headers)+"\r\n")
		must(t, err)
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d headers: the connection goes on", headers)
		}
		if n := kept.Load(); n > 0 {
			t.Errorf("%d of %d headers are kept", n, headers)
		}
	}
}

// manyHeaders are different headers without a value.
func manyHeaders(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%x:\r\n", i)
	}
	return b.String()
}

// Many short headers take more memory than one long one.
func TestManyHeadersAreRejected(t *testing.T) {
	base := serve(t)
	for n, want := range map[int]int{100: http.StatusOK, 200: http.StatusRequestHeaderFieldsTooLarge} {
		req, _ := http.NewRequest(http.MethodGet, base+"/livez", nil)
		for i := range n {
			req.Header.Set(fmt.Sprint(i), "")
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d headers: %s, want %d", n, resp.Status, want)
		}
	}
}

// Headers that never end take little: beyond it, their connections are closed.
func TestHeadersThatNeverEnd(t *testing.T) {
	const connections, each = 256, 10 << 10
	server := listening(t)
	server.http.ReadTimeout *= 100
	serving(t, server)
	ended := make(chan error, connections)
	for i := range connections {
		conn := dialFrom(t, server, net.IPv4(127, 0, 1, byte(i%16)))
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, err := conn.Write(append([]byte("GET /livez HTTP/1.1\r\nX: "), bytes.Repeat([]byte("a"), each)...))
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			ended <- err
		}()
	}
	for range connections - maxReceived/(each-freeReceived) {
		if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a connection goes on: %v", err)
		}
	}
	probe := dialFrom(t, server, net.IPv4(127, 0, 2, 1))
	_, err := io.WriteString(probe, "GET /livez HTTP/1.0\r\nAuthorization: Bearer "+strings.Repeat("a", 1500)+"\r\n\r\n")
	must(t, err)
	if answer, err := io.ReadAll(probe); err != nil || !strings.Contains(string(answer), "200 OK") {
		t.Errorf("%q %v", answer, err)
	}
}
