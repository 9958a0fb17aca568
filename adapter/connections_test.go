package adapter

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
)

// A client that only opens connections keeps no other out.
func TestOneAddressHasItsShareOfConnections(t *testing.T) {
	a := start(t, shop())
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	for range DefaultConfig().MaxConnections + 16 {
		conn, err := dialer.Dial("tcp", a.Addr().String())
		must(t, err)
		open = append(open, conn)
	}
	a.client.CloseIdleConnections()
	resp, err := a.client.Get(a.url + externalRoot + "namespaces/shop/orders_waiting")
	if err != nil {
		t.Fatalf("another address is kept out: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
	first := open[0]
	_ = first.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest connection is not closed: %v", err)
	}
	if held := a.listener.Len(); held > DefaultConfig().MaxConnections/eachOfConnections+1 {
		t.Errorf("%d connections are held", held)
	}
}

// A handshake that does not end is cut off, although the library would wait for half a minute.
func TestHandshakesAreBounded(t *testing.T) {
	raised := handshakeTimeout
	handshakeTimeout = connlimit.HandshakeTimeout
	a := start(t, shop())
	handshakeTimeout = raised
	conn, err := net.Dial("tcp", a.Addr().String())
	must(t, err)
	defer conn.Close()
	began := time.Now()
	_ = conn.SetReadDeadline(began.Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// The requests of a connection are bounded: one takes memory until its answer is read, before any limit of requests.
func TestRequestsOfAConnectionAreBounded(t *testing.T) {
	a := start(t, shop())
	conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // no settings
	must(t, err)
	head := make([]byte, 9) // of a frame (RFC 9113, section 4.1)
	_, err = io.ReadFull(conn, head)
	must(t, err)
	settings := make([]byte, binary.BigEndian.Uint32(head)>>8)
	_, err = io.ReadFull(conn, settings)
	must(t, err)
	for ; len(settings) >= 6; settings = settings[6:] {
		const maxConcurrentStreams = 3
		if binary.BigEndian.Uint16(settings) == maxConcurrentStreams {
			if n := binary.BigEndian.Uint32(settings[2:]); n != maxStreams {
				t.Errorf("%d requests, want %d", n, maxStreams)
			}
			return
		}
	}
	t.Error("no limit of requests is told")
}

// A body that never comes holds neither its answer, nor its place, nor the stop. net/http cancels its request, and the library
// then cuts an answer off that it has begun.
func TestBodiesThatNeverCome(t *testing.T) {
	raised := drainTimeout
	drainTimeout = 10 * time.Millisecond
	defer func() { drainTimeout = raised }()
	a := start(t, shop(), func(c *Config) { c.MaxInFlight = 2 })
	for _, head := range []string{"Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"} {
		for _, path := range []string{"/version", "/openapi/v2", externalRoot, "/" + strings.Repeat("x", 4000)} {
			conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			must(t, err)
			defer conn.Close() // after the stop of the server
			_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
			_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n"+head+"\r\n")
			must(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				if resp.StatusCode == http.StatusTooManyRequests {
					t.Errorf("%s: the places of the answers before are taken", path)
				}
				_, err = io.Copy(io.Discard, resp.Body)
			}
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", path, err)
			}
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: the connection goes on: %v", path, err)
			}
		}
	}
}
