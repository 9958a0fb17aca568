package push

import (
	"strings"
	"testing"
)

func TestReadBack(t *testing.T) {
	h := start(t)
	for _, c := range [][3]string{
		{"PUT", "/v1/namespaces/shop/pods/web-1/queue", "9007199254740993"},
		{"PUT", "/v1/namespaces/shop/pods/web-2/queue", "1.25"},
		{"PUT", "/v1/namespaces/shop/external/depth?label=queue=mail", "3"},
		{"PUT", "/v1/namespaces/shop/external/depth?label=queue=sms%26%3C&label=zone=a", "-1e30"},
		{"PUT", "/v1/namespaces/shop/services/front/queue", "12"},
		{"PUT", "/v1/namespaces/shop/metrics/open", "5"},
		{"PUT", "/v1/nodes/a.example.com/open", "6"},
		{"PUT", "/v1/external/open", "7"},
	} {
		if status, answer := h.do(c[0], c[1], c[2]); status != 200 {
			t.Fatal(c, status, answer)
		}
	}
	for _, c := range []struct{ name, path string }{
		{"read_object.json", "/v1/namespaces/shop/pods/web-1/queue"},
		{"read_object_max_10s.json", "/v1/namespaces/shop/pods/web-1/queue:max:10s"},
		{"read_all_objects.json", "/v1/namespaces/shop/pods/*/queue"},
		{"read_rollup.json", "/v1/namespaces/shop/services/front/queue"},
		{"read_external.json", "/v1/namespaces/shop/external/depth"},
		{"read_external_one.json", "/v1/namespaces/shop/external/depth?label=queue=mail"},
		{"read_namespace.json", "/v1/namespaces/shop/metrics/open"},
		{"read_node.json", "/v1/nodes/a.example.com/open"},
		{"read_cluster_external.json", "/v1/external/open"},
		{"index.json", "/v1"},
	} {
		status, answer := h.do("GET", c.path, "")
		if status != 200 {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
		golden(t, c.name, answer)
	}
	if status, answer := h.do("GET", "/v1/namespaces/shop/external/depth?label=queue=fax", ""); status != 404 {
		t.Error(status, answer)
	}
	if res, text := h.send("HEAD", "/v1/external/open", nil); res.StatusCode != 200 || text != "" {
		t.Error(res.StatusCode, text)
	}
}

// A read of an object that the cluster view doesn't know yet is answered with 503: the client tries
// again.
func TestReadNotReady(t *testing.T) {
	h := start(t)
	res, answer := h.send("GET", "/v1/namespaces/shop/services/front/unready", nil)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(answer, "not known yet") {
		t.Errorf("%d %s; want 503 with Retry-After", res.StatusCode, answer)
	}
}

func TestDelete(t *testing.T) {
	h := start(t)
	push := func() {
		for _, path := range []string{"external/d?label=q=a", "external/d?label=q=b", "pods/web-1/d", "pods/web-2/d"} {
			h.do("PUT", "/v1/namespaces/shop/"+path, "1")
		}
	}
	for _, c := range []struct {
		path, answer string
		left         int
	}{
		{"external/d?label=q=a", "{\"deleted\":1}\n", 3},
		{"external/d", "{\"deleted\":2}\n", 2},
		{"pods/web-1/d", "{\"deleted\":1}\n", 3},
		{"pods/*/d?sync=true", "{\"deleted\":2}\n", 2},
	} {
		push()
		status, answer := h.do("DELETE", "/v1/namespaces/shop/"+c.path, "")
		if status != 200 || answer != c.answer || len(h.table.series) != c.left {
			t.Errorf("%s: %d %s, %d left; want %s, %d", c.path, status, answer, len(h.table.series), c.answer, c.left)
		}
		if again, _ := h.do("DELETE", "/v1/namespaces/shop/"+c.path, ""); again != 404 {
			t.Errorf("%s: a second time %d", c.path, again)
		}
	}
	if h.disk.calls.Load() != 1 {
		t.Errorf("%d syncs", h.disk.calls.Load())
	}
}

func TestAnErrorsGolden(t *testing.T) {
	h := start(t)
	for name, c := range map[string][3]string{
		"error_number.json": {"PUT", "/v1/external/m", "12x"},
		"error_name.json":   {"PUT", "/v1/external/m:p95", "12"},
		"error_path.json":   {"GET", "/nowhere\x7f", ""},
		"error_method.json": {"PATCH", "/v1/samples", ""},
		"error_scope.json":  {"PUT", "/v1/pods/web-1/m", "1"},
	} {
		_, answer := h.do(c[0], strings.ReplaceAll(c[1], "\x7f", "%7f"), c[2])
		golden(t, name, answer)
	}
}
