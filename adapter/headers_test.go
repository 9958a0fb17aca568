package adapter

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/metric"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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

// A request keeps its headers until it is answered, so those with long ones wait for nothing. A client of HTTP/2 knows the
// limit, and may refuse them itself.
func TestLongHeadersAreRejected(t *testing.T) {
	a := start(t, shop())
	long := strings.Repeat("a", maxHeader)
	old := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}
	defer old.CloseIdleConnections()
	for i, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("X", long) },
		func(r *http.Request) { r.Header["X"] = make([]string, maxHeader/40) }, // of a byte each in HPACK
		func(r *http.Request) { r.Host = long },
		func(r *http.Request) { r.Method = long },
		func(r *http.Request) { r.URL.RawQuery = long },
	} {
		for _, transport := range []http.RoundTripper{old, a.client.Transport} {
			request, err := http.NewRequest(http.MethodGet, a.url+externalRoot+"namespaces/shop/orders_waiting", nil)
			must(t, err)
			change(request)
			resp, err := transport.RoundTrip(request)
			if transport != old && err != nil && strings.Contains(err.Error(), "larger than peer's advertised limit") {
				continue
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%d: %s", i, resp.Status)
			}
		}
	}
}

// Strangers who do not read their answers, which the library keeps with the request, take little memory.
func TestUnreadAnswersKeepNoHeaders(t *testing.T) {
	a := start(t, shop())
	const connections = 24
	watch := "/apis/" + derivedVersion.String() + "/derivedpods?watch=true"
	before := heapInUse()
	for i := range connections {
		frames, _ := a.unread(t)
		for id := range uint32(maxStreams) {
			var block bytes.Buffer
			encoder := hpack.NewEncoder(&block)
			for _, field := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: watch}} {
				must(t, encoder.WriteField(field))
			}
			for name := range 1100 {
				must(t, encoder.WriteField(hpack.HeaderField{Name: strconv.Itoa(name), Sensitive: true}))
			}
			must(t, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*id + 1, EndStream: true, BlockFragment: block.Next(16 << 10), EndHeaders: block.Len() == 0}))
			for block.Len() > 0 {
				part := block.Next(16 << 10)
				must(t, frames.WriteContinuation(2*id+1, block.Len() == 0, part))
			}
		}
		refused := a.metrics.requests.WithLabelValues("watch", other, "431")
		eventually(t, "all are refused", func() bool { return testutil.ToFloat64(refused) == float64((i+1)*maxStreams) })
	}
	if took := heapInUse() - before; took > 30<<20 {
		t.Errorf("%d MiB are held for %d requests", took>>20, connections*maxStreams)
	}
}

// unread is a connection of HTTP/2 whose client takes no body of an answer.
func (a *api) unread(t *testing.T) (*http2.Framer, net.Conn) {
	t.Helper()
	conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	frames := http2.NewFramer(conn, conn)
	must(t, frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	return frames, conn
}

// The front proxy's connections are trusted once one of its users sends a body. Its certificate is not checked for the reads of autoscalers.
func TestProxiesMayPassOnBodies(t *testing.T) {
	checks, trusted := 0, ""
	isProxy := func(r *http.Request) bool { checks++; return r.RemoteAddr == "10.0.1.1:1" }
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	bounded := newHeaderRooms(isProxy, func(remote string) { trusted += remote }).bound(next, next)
	for _, c := range []struct {
		from, body, trusted string
		checks              int
	}{
		{"10.0.1.1:1", "", "", 0},
		{"10.0.0.1:1", "a", "", 1},
		{"10.0.1.1:1", "a", "10.0.1.1:1", 2},
	} {
		r := httptest.NewRequest(http.MethodGet, "/apis", strings.NewReader(c.body))
		r.RemoteAddr = c.from
		bounded.ServeHTTP(httptest.NewRecorder(), r)
		if trusted != c.trusted || checks != c.checks {
			t.Errorf("%+v: %q is trusted after %d checks", c, trusted, checks)
		}
	}
}

// Requests in work with long headers of one address leave room for those of others, and all of them for the front proxy's.
func TestLongHeadersLeaveRoom(t *testing.T) {
	const addresses, proxied, bytes = 16, "10.0.1.1:1", 100 << 10
	address := func(i int) string { return fmt.Sprintf("10.0.0.%d:1", i) }
	var bounded http.Handler
	ask := func(from string) int {
		r, w := httptest.NewRequest(http.MethodGet, "/apis", nil), httptest.NewRecorder()
		r.RemoteAddr, r.Header = from, http.Header{"X": {strings.Repeat("a", bytes)}}
		bounded.ServeHTTP(w, r)
		return w.Code
	}
	held, flood, first, others := 0, 0, 0, map[string]int{}
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr != address(flood) || held > maxLargeHeaders {
			return
		}
		held += bytes
		for flood < addresses && ask(address(flood)) == http.StatusTooManyRequests {
			if flood++; flood == 1 {
				first, others[address(1)] = held, ask(address(addresses))
			}
		}
		if _, asked := others[proxied]; flood == addresses && !asked {
			others[proxied] = ask(proxied)
		}
	})
	trust := func(string) {}
	bounded = newHeaderRooms(func(r *http.Request) bool { return r.RemoteAddr == proxied }, trust).bound(next, http.HandlerFunc(refuseHeaders))
	ask(address(0))
	if first == 0 || first > maxLargeHeaders*3/4 || held > maxLargeHeaders {
		t.Errorf("%d bytes of one address are held, of %d", first, held)
	}
	for from, code := range others {
		if code != http.StatusOK {
			t.Errorf("%s gets %d", from, code)
		}
	}
}

// Trailers that a request announces are kept by the library while its answer is not read, so it gets none.
func TestAnnouncedTrailersEndTheRequest(t *testing.T) {
	a := start(t, shop())
	request, err := http.NewRequest(http.MethodGet, a.url+externalRoot+"namespaces/shop/orders_waiting", strings.NewReader("a"))
	must(t, err)
	request.ContentLength, request.Trailer = -1, http.Header{"X": nil}
	if resp, err := a.client.Do(request); err == nil {
		_ = resp.Body.Close()
		t.Errorf("%s", resp.Status)
	}
	// Over HTTP/1 the connection ends though the body does not.
	conn, err := tls.Dial("tcp", a.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	_, err = io.WriteString(conn, "GET "+externalRoot+" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n")
	must(t, err)
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on: %v", err)
	}
}

// deadlined is a writer whose write deadline is known.
type deadlined struct {
	http.ResponseWriter
	at time.Time
}

func (d *deadlined) SetWriteDeadline(at time.Time) error { d.at = at; return nil }

// A watch has no deadline once it has begun. One that is refused has one, and so has what is left when it ends.
func TestDeadlinesOfWatches(t *testing.T) {
	w := &deadlined{ResponseWriter: httptest.NewRecorder()}
	source := &changingUsage{}
	begun := false
	timed := writeTimeout(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if w.at.IsZero() {
			t.Error("no deadline before the watch")
		}
		pods := &derivedPods{usageStorage: usageStorage{source: source}, bounds: watchBounds{held: newReaderShares(1, 0)}}
		events, err := pods.Watch(r.Context(), nil)
		must(t, err)
		defer events.Stop()
		begun = w.at.IsZero()
	}), time.Hour)
	timed.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/"+derivedVersion.String()+"/derivedpods?watch=true", nil))
	if !begun || w.at.IsZero() {
		t.Errorf("no deadline during the watch: %v; afterwards: %v", begun, w.at)
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
