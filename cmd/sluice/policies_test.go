package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// HTTP push answers before the API server does. Until the policies are known, it gives out no external
// metric.
func TestUnknownPoliciesDeny(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t)
	base, _ := p.pushURL()
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	const secret = "/v1/namespaces/shop/external/secret"
	if code, text := ask("PUT", secret, "7"); code != http.StatusOK {
		t.Fatal(code, text)
	}
	for _, path := range []string{secret, "/metrics/series"} {
		if code, text := ask("GET", path, ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "namespaces") {
			t.Errorf("GET %s before the namespaces are known: %d %s", path, code, text)
		}
	}
	p.cluster.compared.Store(true)
	if code, text := ask("GET", secret, ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "policies") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := ask("GET", "/metrics/series", ""); code != http.StatusOK || strings.Contains(text, "secret") {
		t.Errorf("%d %s", code, text)
	}
}
