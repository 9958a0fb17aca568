package adapter

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// A large list is compressed, and has the same content in every representation.
func TestLargeListsInEveryRepresentation(t *testing.T) {
	points := make([]metric.Point, 5_000)
	for i := range points {
		points[i] = metric.Point{Object: pod(fmt.Sprintf("web-%d", i)), Value: metric.Int(int64(i)), Time: noon}
	}
	a := start(t, &large{points: points})
	path := customRoot + "v1beta2/namespaces/shop/pods/*/x"
	_, plain := a.get(t, path, "application/json")
	req, err := http.NewRequest(http.MethodGet, a.url+path, nil)
	must(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := a.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("not compressed: %v", resp.Header)
	}
	unpacked, err := gzip.NewReader(resp.Body)
	must(t, err)
	if text, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(text, plain) {
		t.Errorf("compressed it is another answer of %d bytes instead of %d (%v)", len(text), len(plain), err)
	}
	if _, pretty := a.get(t, path+"?pretty=true", "application/json"); !bytes.HasPrefix(pretty, []byte("{\n  \"kind\"")) || len(pretty) < len(plain) {
		t.Errorf("not pretty: %.60q", pretty)
	}
	if _, yaml := a.get(t, path, "application/yaml"); !bytes.HasPrefix(yaml, []byte("apiVersion: ")) {
		t.Errorf("not YAML: %.60q", yaml)
	}
}
