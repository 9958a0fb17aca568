package pushgateway

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

func FuzzGatewayPath(f *testing.F) {
	for _, path := range []string{"/metrics/job/a", "/metrics/job@base64/YQ==/l@base64/=", "/metrics/job/a/b/c/job/d", "/metrics/job/a/", "/metrics/job//", "/metrics/job/%2f/%61/b"} {
		f.Add(path)
	}
	h := New(nil, Config{}, httpserver.DefaultConfig())
	f.Fuzz(func(t *testing.T, path string) {
		var r, r2 httpserver.Path
		if matched, fault := h.matchGroup([]byte(path), &r); fault != nil || !matched {
			return
		}
		job, _ := r.Grouping.Get("job")
		if job == "" {
			t.Fatalf("%q: %s has no job", path, r.Grouping)
		}
		// Said again, in base64, it is the same group.
		again := "/metrics/job@base64/" + encodeBase64(job)
		for key, value := range r.Grouping.All() {
			if strings.HasPrefix(key, "__") || !isLabelName(key) {
				t.Fatalf("%q: label %q", path, key)
			}
			if key != "job" {
				again += "/" + key + "@base64/" + encodeBase64(value)
			}
		}
		if _, fault := h.matchGroup([]byte(again), &r2); fault != nil || r2.Grouping != r.Grouping {
			t.Errorf("%q: %s, and again %s", path, r.Grouping, r2.Grouping)
		}
		if _, ok := metric.UnpackLabels(r.Grouping.Packed()); !ok {
			t.Errorf("%q: not a label set", path)
		}
	})
}

func encodeBase64(s string) string {
	if s == "" {
		return "="
	}
	return base64.URLEncoding.EncodeToString([]byte(s))
}
