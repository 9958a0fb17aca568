package console

import (
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
)

// listening is a console that does not run yet.
func listening(t *testing.T) *Server {
	t.Helper()
	s, err := New(Config{Address: "127.0.0.1:0"}, Parts{Source: shop(), Logger: slog.New(slog.DiscardHandler), Health: func() Health { return Health{} }})
	must(t, err)
	return s
}

func run(t *testing.T, s *Server) {
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	t.Cleanup(func() { must(t, <-done) })
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// A request whose body never comes keeps no headers once it was handled, and its connection ends. Headers that take much are
// refused.
func TestBodiesThatNeverCome(t *testing.T) {
	for headers, want := range map[int]string{10: "405", 1000: "431"} {
		s := listening(t)
		s.http.ReadTimeout /= 100
		var kept atomic.Int64
		answer := s.http.Handler
		s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer.ServeHTTP(w, r)
			kept.Add(int64(len(r.Header)))
		})
		run(t, s)
		conn := dial(t, s)
		var b strings.Builder
		for i := range headers {
			fmt.Fprintf(&b, "%x:\r\n", i)
		}
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"+b.String()+"\r\n")
		must(t, err)
		text, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(text), "HTTP/1.1 "+want) {
			t.Errorf("%d headers: %.80q %v", headers, text, err)
		}
		if n := kept.Load(); n > 0 {
			t.Errorf("%d of %d headers are kept", n, headers)
		}
	}
}

// Headers that never end take little: beyond it, their connections are closed.
func TestHeadersThatNeverEnd(t *testing.T) {
	s := listening(t)
	s.http.ReadTimeout *= 100
	run(t, s)
	ended := make(chan error, maxConnectionsEach)
	for range maxConnectionsEach {
		conn := dial(t, s)
		go func() {
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nX: "+strings.Repeat("a", 30<<10))
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			ended <- err
		}()
	}
	for range maxConnectionsEach - maxReceived/(20<<10) {
		if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a connection goes on: %v", err)
		}
	}
}
