package adapter

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Strangers who begin requests with headers of a megabyte, on connections that are within all limits, take little memory,
// and others are answered.
func TestHeadersThatNeverEnd(t *testing.T) {
	a := start(t, shop())
	const addresses, each = 8, 24
	before := heapInUse()
	header := bytes.Repeat([]byte("a"), 900<<10)
	var sending sync.WaitGroup
	for i := range addresses * each {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/each))}}
		conn, err := tls.DialWithDialer(&dialer, "tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		must(t, err)
		defer conn.Close()
		sending.Go(func() {
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, "GET /apis HTTP/1.1\r\nHost: sluice\r\nX: "); err == nil {
				_, _ = conn.Write(header)
			}
		})
	}
	sending.Wait()
	if took := heapInUse() - before; took > 100<<20 {
		t.Errorf("%d MiB are held for %d connections", took>>20, addresses*each)
	}
	resp, err := a.client.Get(a.url + externalRoot + "namespaces/shop/orders_waiting")
	if err != nil {
		t.Fatalf("another address is kept out: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A request keeps its headers until it is answered, so those with long ones wait for nothing.
func TestLongHeadersAreRejected(t *testing.T) {
	a := start(t, shop())
	for _, header := range []http.Header{
		{"X": {strings.Repeat("a", maxHeader)}},
		{"X": make([]string, maxHeader/32)}, // of a byte each in HPACK
	} {
		request, err := http.NewRequest(http.MethodGet, a.url+externalRoot+"namespaces/shop/orders_waiting", nil)
		must(t, err)
		request.Header = header
		resp, err := a.client.Do(request)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s", resp.Status)
		}
	}
}

// The library quotes a path in answers to strangers, so long ones are rejected before it.
func TestLongPathsAreRejected(t *testing.T) {
	a := start(t, shop())
	name := strings.Repeat("%C3%BC", metric.MaxNameLength/2) // as long as one may be, in percent signs
	for path, want := range map[string]int{
		"/" + strings.Repeat("x", maxOtherPath):                                              http.StatusRequestURITooLong,
		"/apis/" + strings.Repeat("x", maxPath):                                              http.StatusRequestURITooLong,
		"/" + strings.Repeat("x", maxOtherPath-1):                                            http.StatusNotFound,
		externalRoot + "namespaces/" + strings.Repeat("n", 63) + "/" + name:                  http.StatusNotFound,
		"/openapi/v3/apis/external.metrics.k8s.io/v1beta1?hash=" + strings.Repeat("a", 3000): http.StatusOK,
	} {
		resp, err := a.client.Get(a.url + path)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%.80s: %s, want %d", path, resp.Status, want)
		}
	}
}
