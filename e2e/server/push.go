package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// PutSynced sets an external gauge over HTTP and returns when the server reports it on disk.
func (s *Server) PutSynced(namespace, metric string, value float64) {
	s.t.Helper()
	url := fmt.Sprintf("http://%s/v1/namespaces/%s/external/%s?sync=true", s.HTTP, namespace, metric)
	if status, text := Ask(s.t, http.MethodPut, url, fmt.Sprint(value)); status != http.StatusOK {
		s.t.Fatalf("synced push of %s: %d %s", metric, status, text)
	}
}

// Ask sends a request without credentials, and returns the answer.
func Ask(t *testing.T, method, url, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(read)
}
