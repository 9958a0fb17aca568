package adapter

import (
	"net/http"
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
