package push

import (
	"errors"
	"strings"
	"testing"
)

// TestSyncAll: sync=all waits for the disk and for all replicas, and the answer says which replica
// took the push.
func TestSyncAll(t *testing.T) {
	replicas := &others{}
	h := start(t, func(_ *Config, p *Parts) { p.Replicas = replicas })
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/v1/external/m?sync=all", "5", 200},
		{"POST", "/v1/samples?sync=all", `{"name":"n","type":"gauge","value":1}`, 200},
		{"POST", "/v1/statsd?sync=all", "n:1|g", 200},
		{"PUT", "/metrics/job/a?sync=all", "x 1\n", 200},
		{"DELETE", "/metrics/job/a?sync=all", "", 202},
		{"DELETE", "/v1/external/m?sync=all", "", 200},
	} {
		disk, all := h.disk.calls.Load(), replicas.calls.Load()
		res, answer := h.send(c.method, c.path, strings.NewReader(c.body))
		if res.StatusCode != c.status || !strings.Contains(answer, `"replica":"sluice-1"`) || res.Header.Get("Sluice-Replica") != "sluice-1" {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, res.StatusCode, answer, c.status)
		}
		if h.disk.calls.Load() != disk+1 || replicas.calls.Load() != all+1 {
			t.Errorf("%s %s did not wait for disk and replicas", c.method, c.path)
		}
	}
	if n := replicas.deletions.Load(); n != 1 {
		t.Errorf("waited %d times for what others removed, want once: for the deletion of the metric", n)
	}
	all := replicas.calls.Load()
	if status, answer := h.do("PUT", "/v1/external/m?sync=true", "5"); status != 200 || !strings.Contains(answer, `"replica":"sluice-1"`) {
		t.Error(status, answer)
	}
	if status, answer := h.do("PUT", "/v1/external/m", "5"); status != 200 || strings.Contains(answer, "replica") {
		t.Error(status, answer)
	}
	if replicas.calls.Load() != all {
		t.Error("waited for replicas without sync=all")
	}
	replicas.err = errors.New("sluice-0 has not answered")
	status, answer := h.do("PUT", "/v1/external/m?sync=all", "5")
	if status != 503 || !strings.Contains(answer, "sluice-0 has not answered") || !strings.Contains(answer, `"applied":1`) {
		t.Error(status, answer)
	}
}

// TestSyncAllAlone: without other replicas, sync=all is sync=true.
func TestSyncAllAlone(t *testing.T) {
	h := start(t)
	if status, answer := h.do("PUT", "/v1/external/m?sync=all", "5"); status != 200 || answer != "{\"applied\":1,\"refused\":0}\n" {
		t.Error(status, answer)
	}
	if n := h.disk.calls.Load(); n != 1 {
		t.Errorf("waited for the disk %d times", n)
	}
}
