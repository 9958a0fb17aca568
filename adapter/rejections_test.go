package adapter

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// failures are requests for every kind of error.
func failures() map[string]struct {
	method, path string
	code         int
} {
	return map[string]struct {
		method, path string
		code         int
	}{
		"not found":  {http.MethodGet, externalRoot + "namespaces/shop/nope", 404},
		"no object":  {http.MethodGet, customRoot + "v1beta2/namespaces/shop/pods/web-9/http_requests", 404},
		"window":     {http.MethodGet, externalRoot + "namespaces/shop/orders_waiting:3m", 400},
		"selector":   {http.MethodGet, externalRoot + "namespaces/shop/orders_waiting?labelSelector=queue%3D%3D%3D", 400},
		"post":       {http.MethodPost, externalRoot + "namespaces/shop/orders_waiting", 405},
		"put":        {http.MethodPut, customRoot + "v1beta2/namespaces/shop/pods/web-1/http_requests", 405},
		"patch":      {http.MethodPatch, customRoot + "v1beta1/namespaces/shop/pods/web-1/http_requests", 405},
		"delete":     {http.MethodDelete, externalRoot + "namespaces/shop/orders_waiting", 405},
		"overflow":   {http.MethodGet, externalRoot + "namespaces/shop/infinity", 422},
		"made up":    {"MADEUP", externalRoot + "namespaces/shop/orders_waiting", 405},
		"acceptable": {http.MethodGet, externalRoot + "namespaces/shop/orders_waiting", 200},
	}
}

func withOverflow() *memory {
	m := shop()
	m.put(held{metric.Object{Namespace: "shop"}, "infinity", metric.Gauge, labelled(), metric.Float(math.MaxFloat64), noon})
	return m
}

// Every error is a complete Status, in HTTP/1 and HTTP/2, also if the request has a body.
func TestErrorsAreComplete(t *testing.T) {
	a := start(t, withOverflow())
	for name, c := range failures() {
		for _, body := range []string{"", "1", strings.Repeat("x", drainBytes+1)} {
			t.Run(fmt.Sprintf("%s/http1/%d", name, len(body)), func(t *testing.T) {
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				defer transport.CloseIdleConnections()
				req, err := http.NewRequest(c.method, a.url+c.path, strings.NewReader(body))
				must(t, err)
				resp, err := transport.RoundTrip(req)
				must(t, err)
				defer func() { _ = resp.Body.Close() }()
				text, err := io.ReadAll(resp.Body)
				if err != nil || resp.ProtoMajor != 1 {
					t.Fatal(resp.Proto, err)
				}
				a.complete(t, c.code, resp.StatusCode, resp.Header.Get("Content-Type"), text)
			})
		}
		t.Run(name+"/http2", func(t *testing.T) {
			got := a.frames(t, c.method, c.path, "1")
			a.complete(t, c.code, got.code, got.contentType, got.body)
		})
	}
}

func (a *api) complete(t *testing.T, want, code int, contentType string, body []byte) {
	t.Helper()
	if code != want {
		t.Fatalf("status %d, want %d: %s", code, want, body)
	}
	if code == http.StatusOK || !strings.HasPrefix(contentType, "application/json") {
		return // the library answers an unknown method in plain text
	}
	if s := status(t, body); int(s.Code) != want || s.Message == "" {
		t.Errorf("%s", body)
	}
}

// An overloaded server answers with a complete Status too.
func TestTooManyRequestsIsComplete(t *testing.T) {
	m := shop()
	m.blocked, m.entered = make(chan struct{}), make(chan struct{})
	a := start(t, m, func(c *Config) { c.MaxInFlight = 1 })
	path := externalRoot + "namespaces/shop/orders_waiting"
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := a.client.Get(a.url + path); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-m.entered
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		got := a.frames(t, method, path, "1")
		a.complete(t, http.StatusTooManyRequests, got.code, got.contentType, got.body)
	}
	close(m.blocked)
	<-done
}

type framed struct {
	code        int
	contentType string
	body        []byte
}

// frames sends a request over HTTP/2, frame by frame, with the body a little later than the
// headers, as curl does. The stream must end without a reset, which clients may take for a lost
// answer.
func (a *api) frames(t *testing.T, method, path, body string) framed {
	t.Helper()
	got, reset := a.framesOnce(t, method, path, body)
	if reset != nil {
		t.Fatalf("the stream was reset: %v", reset.ErrCode)
	}
	return got
}

func (a *api) framesOnce(t *testing.T, method, path, body string) (got framed, reset *http2.RSTStreamFrame) {
	t.Helper()
	conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	must(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", method}, {":scheme", "https"}, {":authority", a.Addr().String()}, {":path", path},
		{"content-length", fmt.Sprint(len(body))},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	must(t, framer.WriteSettings())
	must(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}))
	time.AfterFunc(50*time.Millisecond, func() { _ = framer.WriteData(1, true, []byte(body)) })
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%v after %+v", err, got)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			_, _ = fmt.Sscan(f.PseudoValue("status"), &got.code)
			for _, field := range f.RegularFields() {
				if field.Name == "content-type" {
					got.contentType = field.Value
				}
			}
		case *http2.DataFrame:
			got.body = append(got.body, f.Data()...)
			if f.StreamEnded() {
				_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				return got, nextReset(framer)
			}
		case *http2.RSTStreamFrame:
			return got, f
		}
	}
}

// nextReset reads on after the answer: a reset would follow at once.
func nextReset(framer *http2.Framer) *http2.RSTStreamFrame {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil
		}
		if f, ok := frame.(*http2.RSTStreamFrame); ok {
			return f
		}
	}
}
