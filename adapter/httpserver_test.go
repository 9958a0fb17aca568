package adapter

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
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
	return append(hpackOf(t, ":method", "GET", ":scheme", "https", ":path", "/"), bytes.Repeat([]byte{emptyHeader}, n)...)
}

// hpackOf is a block of headers: names and values in turn.
func hpackOf(t *testing.T, fields ...string) []byte {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		must(t, encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return block.Bytes()
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

// What net/http refuses itself counts until the answer is read: the headers are kept.
func TestRefusedHeadersAreCounted(t *testing.T) {
	a := start(t, shop())
	frames, conn := a.unread(t)
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	go func() { // the server may close the connection at any of them
		for i := range uint32(10_000) {
			block := append(manyHeaders(t, 0), bytes.Repeat([]byte{emptyHeader}, maxHeader/32)...)
			if frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, EndStream: true, EndHeaders: true, BlockFragment: block}) != nil {
				return
			}
			if i%maxStreams == maxStreams-1 && frames.WritePing(false, [8]byte{}) != nil {
				return
			}
		}
	}()
	for refused := 0; ; {
		frame, err := frames.ReadFrame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection goes on")
			}
			return
		}
		if _, is := frame.(*http2.HeadersFrame); is {
			if refused++; refused > maxReceived/(maxHeader/32) {
				t.Fatalf("%d requests are kept", refused)
			}
		}
	}
}

// The front proxy's connection, which all of its users share, goes on whatever one of them sends, also where strangers leave
// nothing of what may be received.
func TestProxiesConnectionsGoOn(t *testing.T) {
	plane := newControlPlane(t)
	a, _ := startDelegating(t, plane)
	a.waitReady(t)
	for _, c := range []struct {
		certificates []tls.Certificate
		goesOn       bool
	}{{[]tls.Certificate{plane.proxyCA.client(t, "front-proxy")}, true}, {nil, false}} {
		conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, Certificates: c.certificates})
		must(t, err)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
		_, err = io.WriteString(conn, http2.ClientPreface)
		must(t, err)
		frames := http2.NewFramer(conn, conn)
		must(t, frames.WriteSettings())
		const pings, atOnce = 10_000, 500 // time earns ten a second
		answers := 0
		for err = error(nil); err == nil && answers < pings; {
			for n := 0; n < atOnce && err == nil; n++ {
				err = frames.WritePing(false, [8]byte{})
			}
			for n := 0; n < atOnce && err == nil; {
				var frame http2.Frame
				if frame, err = frames.ReadFrame(); err == nil && frame.Header().Type == http2.FramePing {
					n++
					answers++
				}
			}
		}
		if goesOn := answers == pings; goesOn != c.goesOn {
			t.Errorf("after %d answers: %v", answers, err)
		}
		_ = conn.Close()
	}
}

// A certificate that no authority of clients has signed ends the handshake: it would be verified again for each request.
func TestForeignCertificatesAreRefused(t *testing.T) {
	plane := newControlPlane(t)
	a, _ := startDelegating(t, plane)
	a.waitReady(t)
	pair, err := generate([]string{"client"}, time.Now())
	must(t, err)
	foreign, err := tls.X509KeyPair(pair.cert, pair.key)
	must(t, err)
	for name, c := range map[string]*tls.Certificate{"none": {}, "foreign": &foreign} {
		client := http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }}}}
		resp, err := client.Get(a.url + "/livez")
		if (err == nil) != (name == "none") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}

// A client that takes nothing of its answers at all, so that the library cannot even reset them, holds up no stop.
func TestStopWithClientsThatReadNothing(t *testing.T) {
	server := prepared(t, Parts{}, anonymousAccess(), func(c *Config) { c.RequestTimeout = time.Second })
	server.http.framed.HTTP2.WriteByteTimeout = 0 // the stop ends it
	small := func(raw syscall.RawConn, of int) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, of, 4096) })
	}
	listening, err := server.listener.Listener.(*net.TCPListener).SyscallConn()
	must(t, err)
	must(t, small(listening, syscall.SO_SNDBUF))
	var conn net.Conn
	t.Cleanup(func() { _ = conn.Close() }) // after the stop
	a := running(t, server)
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { return small(raw, syscall.SO_RCVBUF) }}
	conn, err = dialer.Dial("tcp", a.Addr().String())
	must(t, err)
	over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12}) // no tickets wait
	_, err = io.WriteString(over, http2.ClientPreface)
	must(t, err)
	frames := http2.NewFramer(over, over)
	must(t, frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	must(t, frames.WriteWindowUpdate(0, 1<<30))
	block := hpackOf(t, ":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/openapi/v2")
	must(t, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: block}))
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	eventually(t, "the answer has begun", func() (begun bool) {
		_ = raw.Control(func(fd uintptr) {
			waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			begun = err == nil && waiting > 1000
		})
		return begun
	})
	a.stop() // the test ends once Run has returned
}
