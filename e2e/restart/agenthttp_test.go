package restart

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// What is pushed to an agent over HTTP is read from the server, also where that was away meanwhile: objects, labels
// and kinds are those of the request. What only a server knows, an agent refuses.
func TestHTTPPushToAnAgent(t *testing.T) {
	t.Parallel()
	s := server.New(t, "--windows", "10s,1h")
	s.WithAgents()
	s.Start()
	a := s.NewAgent("node-1")
	a.Streams(t.TempDir())
	a.Start()
	push := func(method, path, body string, status int, says string) {
		t.Helper()
		if got, text := server.Ask(t, method, "http://"+a.HTTP+path, body); got != status || !strings.Contains(text, says) {
			t.Errorf("%s %s: %d %s; want %d with %q", method, path, got, text, status, says)
		}
	}
	everything := func() {
		for range 3 {
			push("POST", "/v1/namespaces/e2e/external/jobs?label=queue=mail", "2", 200, `"applied":1`)
			push("POST", "/v1/namespaces/e2e/pods/web-1/hits", "1", 200, `"applied":1`)
			push("PUT", "/v1/nodes/node-1/load", "0.5", 200, `"applied":1`)
			push("POST", "/v1/samples", `{"name":"took","type":"timer","value":3,"namespace":"e2e","object":"deployments.apps/web","labels":{"a":"b c"}}
{"name":"users","type":"set","value":"u1","namespace":"e2e"}`, 200, `"applied":2`)
			push("POST", "/v1/statsd", "lines:1|c|#namespace:e2e\nlines:1|c|#namespace:e2e", 200, `"applied":2`)
		}
	}
	everything()
	s.Kill()
	everything()
	s.Start()
	everything()
	push("POST", "/v1/namespaces/e2e/external/jobs", "x", 400, "is not a number")
	push("POST", "/v1/namespaces/e2e/crontabs/web/jobs", "1", 404, "crontabs")
	push("POST", "/v1/namespaces/e2e/external/jobs?sync=true", "1", 400, "stores nothing")
	push("GET", "/v1/namespaces/e2e/external/jobs", "", 405, "")
	push("DELETE", "/v1/namespaces/e2e/external/jobs", "", 405, "")
	push("POST", "/api/v1/write", "", 404, "")
	a.Stop()
	for path, want := range map[string]float64{"/v1/namespaces/e2e/external/jobs:total?label=queue=mail": 18,
		"/v1/namespaces/e2e/pods/web-1/hits:total": 9, "/v1/nodes/node-1/load": 0.5,
		"/v1/namespaces/e2e/deployments.apps/web/took:count:1h": 9, "/v1/namespaces/e2e/external/users:unique:1h": 1,
		"/v1/namespaces/e2e/external/lines:total": 18} {
		if _, text := server.Ask(t, "GET", "http://"+s.HTTP+path, ""); !strings.Contains(text, fmt.Sprintf(`"value":%v,`, want)) {
			t.Errorf("%s: %s, want %v", path, text, want)
		}
	}
	s.Stop()
}
