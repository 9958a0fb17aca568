package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// PutSynced sets an external gauge over HTTP and returns when the server reports it on disk.
func (s *Server) PutSynced(namespace, metric string, value float64) {
	s.t.Helper()
	url := fmt.Sprintf("http://%s/v1/namespaces/%s/external/%s?sync=true", s.HTTP, namespace, metric)
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(fmt.Sprint(value)))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("synced push of %s: %s %s (%v)", metric, resp.Status, body, err)
	}
}
