package adapter

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRequestsInFlightAreBounded(t *testing.T) {
	m := shop()
	m.blocked, m.entered = make(chan struct{}), make(chan struct{})
	a := start(t, m, func(c *Config) { c.MaxInFlight = 2 })
	path := customRoot + "v1beta2/namespaces/shop/pods/*/http_requests"
	codes := make(chan int, 2)
	for range 2 {
		go func() {
			resp, err := a.client.Get(a.url + path)
			if err != nil {
				codes <- 0
				return
			}
			_ = resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	<-m.entered
	<-m.entered
	resp, body := a.get(t, path, "application/json")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if s := status(t, body); !strings.Contains(s.Message, "2 requests are in flight") {
		t.Errorf("%q", s.Message)
	}
	for _, path := range []string{"/readyz", "/livez", "/version"} {
		if resp, _ := a.get(t, path, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d while the server is full", path, resp.StatusCode)
		}
	}
	close(m.blocked)
	for range 2 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a request that was let in got %d", code)
		}
	}
	go func() { <-m.entered }()
	if resp, _ := a.get(t, path, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d when there is room again", resp.StatusCode)
	}
}

// A client's slot is its own while a request is answered, and free again afterwards.
func TestRequestsInFlightAreBoundedPerClient(t *testing.T) {
	var limited http.Handler
	ask := func(from string) int {
		r, w := httptest.NewRequest(http.MethodGet, "/apis/"+from, nil), httptest.NewRecorder()
		r.RemoteAddr = from + ":1234"
		limited.ServeHTTP(w, r)
		return w.Code
	}
	limited = limitInFlightPerClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/10.0.0.1" {
			return
		}
		if again, other := ask("10.0.0.1"), ask("10.0.0.2"); again != http.StatusTooManyRequests || other != http.StatusOK {
			t.Errorf("during a request, the client gets %d and another one %d; want 429 and 200", again, other)
		}
	}), 1)
	for range 2 {
		if code := ask("10.0.0.1"); code != http.StatusOK {
			t.Errorf("a client without a request in flight gets %d", code)
		}
	}
}
