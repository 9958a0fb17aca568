package trigger

import (
	"fmt"
	"strings"
	"testing"
)

func TestTrigger(t *testing.T) {
	for _, c := range []struct {
		metadata string // key=value;…
		want     string // fragments of the error, with "|" between; empty: valid
	}{
		{"metric=jobs_waiting:last;target=10", ""},
		{"scalerAddress=x:9095;metric=jobs;target=0.5;activation=3;absent=0;selector=queue=mail;enableTLS=true", ""},
		{"metric=http_requests:rate:10s;object=pods;podSelector=app=web;target=10", ""},
		{"metric=latency:p95;object=deployments.apps/web;target=10", ""},
		{"metric=latency:p95;object=namespace;target=10", ""},
		{"target=10", "metric is missing"},
		{"metric=m", "target is missing or not above 0"},
		{"metric=m;target=0", "target is missing or not above 0"},
		{"metric=m;target=0.0001", `target is "0.0001"; must be 0.001 to 9e+15`},
		{"metric=m;target=1e17", `target is "1e17"; must be`},
		{"metric=m;target=many", `target is "many"; must be a number`},
		{"metric=m;target=NaN", "must be a number"},
		{"metric=m;target=10;activation=x", `activation is "x"`},
		{"metric=m;target=10;absent=1", `absent is "1"; must be "0" or "error"`},
		{"metric=m;target=10;object=web", `object is "web"`},
		{"metric=m;target=10;object=deployments.apps/*", "object is"},
		{"metric=m;target=10;podSelector=a=b", "podSelector is set, but object is"},
		{"metric=latency:p95;target=10;object=pods", ""},
		{"metirc=m;target=10", `metirc is unknown|did you mean "metric"?|metric is missing`},
		{"metric=m;target=10;namespace=other", "namespace is unknown"},
	} {
		metadata := map[string]string{}
		for pair := range strings.SplitSeq(c.metadata, ";") {
			key, value, _ := strings.Cut(pair, "=")
			metadata[key] = value
		}
		_, err := Parse("shop", metadata)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.metadata, err)
			}
			continue
		}
		for fragment := range strings.SplitSeq(c.want, "|") {
			if err == nil || !strings.Contains(err.Error(), fragment) {
				t.Errorf("%s: %v; want %q", c.metadata, err, fragment)
			}
		}
	}
}

// KEDA rewrites any other character, and would then ask for another name.
func TestMetricNameIsOfKEDAsAlphabet(t *testing.T) {
	for metric, want := range map[string]string{
		"jobs_waiting:last": "jobs-waiting-last", "HTTP/requests:rate:10s": "http-requests-rate-10s", "größe": "gr----e", "a.b": "a.b",
	} {
		trigger := Trigger{Question: Question{Metric: metric}}
		if got := trigger.MetricName(); got != want {
			t.Errorf("%s: %q, want %q", metric, got, want)
		}
	}
}

// However many keys are unknown, the first ones alone are worded: each is compared with all known ones.
func TestManyUnknownKeys(t *testing.T) {
	metadata := map[string]string{"metric": "m", "target": "10"}
	for i := range 5000 {
		metadata[fmt.Sprintf("k%07d", i)] = ""
	}
	_, err := Parse("shop", metadata)
	if text := fmt.Sprint(err); !strings.Contains(text, "k0000000 ") || !strings.Contains(text, "k0000007 ") || !strings.Contains(text, "and 4992 more") {
		t.Errorf("%.2000s", text)
	}
	if n := testing.AllocsPerRun(1, func() { _, _ = Parse("shop", metadata) }); n > 1000 {
		t.Errorf("%v allocations", n)
	}
}
