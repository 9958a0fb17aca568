package push

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"google.golang.org/protobuf/proto"
)

// Each line of what a Pushgateway does (docs/pushgateway.md names the cases).
func TestPushgateway(t *testing.T) {
	const text = "Content-Type"
	documented := documentedCases(t)
	for _, c := range []struct {
		name string
		do   func(gateway)
	}{
		{"the path names job and labels", func(g gateway) {
			g.wants(200, `"applied":1`, "PUT", "/metrics/job/backup/host/a%20b/disk/", "x 1\n")
			g.exposes(`x{disk="",host="a b",instance="",job="backup"} 1`)
		}},
		{"a slash behind the job says nothing", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/", "x 1\n")
			g.exposes(`x{instance="",job="a"} 1`)
		}},
		{"job in base64", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job@base64/YS9i", "x 1\n")
			g.exposes(`x{instance="",job="a/b"} 1`)
		}},
		{"label in base64, padding optional, URL-safe alphabet", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/p@base64/L3Zhcg==/q@base64/L3Zhcg/r@base64/Pz8_Pj4-", "x 1\n")
			g.exposes(`x{instance="",job="a",p="/var",q="/var",r="???>>>"} 1`)
		}},
		{"base64 = is the empty string", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/p@base64/=", "x 1\n")
			g.exposes(`x{instance="",job="a",p=""} 1`)
		}},
		{"bad base64", func(g gateway) {
			g.wants(400, "base64", "PUT", "/metrics/job/a/p@base64/a+b", "x 1\n")
			g.wants(400, "base64", "PUT", "/metrics/job@base64/%2Fvar", "x 1\n")
		}},
		{"odd segments", func(g gateway) {
			g.wants(400, "has no value", "PUT", "/metrics/job/a/b", "x 1\n")
			g.wants(400, "has no value", "DELETE", "/metrics/job/a/b/c/d", "")
			g.wants(400, "has no value", "POST", "/metrics/job/a/b/c/", "")
		}},
		{"label names", func(g gateway) {
			for _, name := range []string{"__name__", "__a", "a-b", "1a", "", "a.b", "a@base65", "%ff"} {
				g.wants(400, "is not a label name", "PUT", "/metrics/job/a/"+name+"/b", "x 1\n")
			}
		}},
		{"an empty job", func(g gateway) {
			g.wants(400, "job's name is missing", "PUT", "/metrics/job/", "x 1\n")
			g.wants(400, "job's name is missing", "PUT", "/metrics/job", "x 1\n")
			g.wants(400, "job's name is missing", "PUT", "/metrics/job@base64/=", "x 1\n")
			g.wants(400, "job's name is missing", "PUT", "/metrics/job//a/b", "x 1\n")
			g.wants(404, "is not a path of this server", "PUT", "/metrics/jobs/a", "x 1\n")
			g.wants(404, "is not a path of this server", "PUT", "/metrics/instance/a", "x 1\n")
		}},
		{"the first job wins, of another label the last", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/l/1/job/b/l/2", "x 1\n")
			g.exposes(`x{instance="",job="a",l="2"} 1`)
		}},
		{"an encoded slash is part of a value", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a%2Fb", "x 1\n")
			g.exposes(`x{instance="",job="a/b"} 1`)
		}},
		{"PUT replaces the group", func(g gateway) {
			g.wants(200, "", "POST", "/metrics/job/a", "x 1\ny 2\n")
			g.wants(200, "", "PUT", "/metrics/job/a", "y 3\n")
			g.exposes(`y{instance="",job="a"} 3`)
			if g.served("x", "job", "a", "instance", "") || !g.served("y", "job", "a", "instance", "") {
				g.Error("what left the group is served, or what stayed is not")
			}
		}},
		{"POST replaces families of the same name and adds nothing up", func(g gateway) {
			g.wants(200, "", "POST", "/metrics/job/a", "# TYPE x counter\nx{l=\"1\"} 1\nx{l=\"2\"} 1\ny 2\n")
			g.wants(200, "", "POST", "/metrics/job/a", "# TYPE x counter\nx{l=\"1\"} 5\n")
			g.exposes(`x{instance="",job="a",l="1"} 5`, `y{instance="",job="a"} 2`)
		}},
		{"DELETE removes exactly that group", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
			g.wants(200, "", "PUT", "/metrics/job/a/l/1", "x 2\n")
			g.wants(202, `"deleted":1`, "DELETE", "/metrics/job/a", "")
			g.exposes(`x{instance="",job="a",l="1"} 2`)
			if g.served("x", "job", "a", "instance", "") {
				g.Error("a deleted group is served")
			}
		}},
		{"DELETE answers 202 whatever there is", func(g gateway) {
			g.wants(202, `"deleted":0`, "DELETE", "/metrics/job/none", "")
		}},
		{"PUT with an empty body empties the group and updates push_time_seconds", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
			before, _ := g.times()
			time.Sleep(2 * time.Millisecond)
			g.wants(200, "", "PUT", "/metrics/job/a", "")
			if after, _ := g.times(); after <= before {
				g.Errorf("pushed at %v, then at %v", before, after)
			}
			g.exposes()
		}},
		{"POST with an empty body updates push_time_seconds alone", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
			before, _ := g.times()
			time.Sleep(2 * time.Millisecond)
			g.wants(200, `"applied":0`, "POST", "/metrics/job/a", "")
			if after, _ := g.times(); after <= before {
				g.Errorf("pushed at %v, then at %v", before, after)
			}
			g.exposes(`x{instance="",job="a"} 1`)
		}},
		{"200 is visible to the next read", func(g gateway) {
			for i := range 50 {
				g.wants(200, "", "PUT", "/metrics/job/a", fmt.Sprintf("x %d\n", i))
				g.exposes(fmt.Sprintf(`x{instance="",job="a"} %d`, i))
				if e := g.table.get(metric.Object{}, "x", metric.Label{Key: "job", Value: "a"}, metric.Label{Key: "instance"}); e.whole != int64(i) {
					g.Fatalf("%d is served, want %d", e.whole, i)
				}
			}
		}},
		{"labels of the path win, instance is added", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/l/1", "x{job=\"b\",l=\"2\",m=\"3\"} 1\ny{instance=\"i\"} 2\n")
			g.exposes(`x{instance="",job="a",l="1",m="3"} 1`, `y{instance="i",job="a",l="1"} 2`)
		}},
		{"two series that collide by that", func(g gateway) {
			g.wants(400, "has twice the labels", "PUT", "/metrics/job/a/l/1", "y 1\nx{l=\"1\"} 1\nx{l=\"2\"} 2\n")
			g.wants(400, "has twice the labels", "PUT", "/metrics/job/a/l/1", "x 1\nx{instance=\"\"} 2\n")
			g.exposes()
			if g.rejected(metric.Malformed) != 5 {
				g.Errorf("%d samples refused, want 5", g.rejected(metric.Malformed))
			}
		}},
		{"a series twice in a body", func(g gateway) {
			g.wants(400, "line 2, column 1", "PUT", "/metrics/job/a", "x{l=\"1\"} 1\nx{l=\"1\"} 2\n")
		}},
		{"timestamps", func(g gateway) {
			g.wants(400, `"line":1,"offset":4`, "PUT", "/metrics/job/a", "x 1 1700000000000\n")
			if pushed, failed := g.times(); pushed != 0 || failed == 0 {
				g.Errorf("pushed at %v, failed at %v: want a failure", pushed, failed)
			}
		}},
		{"timestamps in protobuf", func(g gateway) {
			body := delimitedText(g.T, &dto.MetricFamily{Name: proto.String("x"), Type: dto.MetricType_GAUGE.Enum(),
				Metric: []*dto.Metric{{TimestampMs: proto.Int64(1), Gauge: &dto.Gauge{Value: proto.Float64(1)}}}})
			g.wants(400, "timestamp", "PUT", "/metrics/job/a", body, text, delimited)
		}},
		{"the last line's end may be missing", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1")
			g.exposes(`x{instance="",job="a"} 1`)
		}},
		{"another type of a name within the group", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "# TYPE x counter\nx 1\n")
			time.Sleep(2 * time.Millisecond)
			g.wants(400, "is already a counter in this group", "POST", "/metrics/job/a", "# TYPE x gauge\nx 2\ny 3\n")
			g.exposes(`x{instance="",job="a"} 1`)
			pushed, failed := g.times()
			if failed <= pushed {
				g.Errorf("pushed at %v, failed at %v: want the failure later", pushed, failed)
			}
			g.wants(200, "", "PUT", "/metrics/job/a", "# TYPE x gauge\nx 2\n")
			if _, again := g.times(); again != failed {
				g.Errorf("a push forgot the failure: %v, want %v", again, failed)
			}
		}},
		{"another type of a name in another group", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "# TYPE x counter\nx 1\n")
			res := g.wants(200, `{"applied":1,"refused":1}`, "PUT", "/metrics/job/b", "# TYPE x gauge\nx 2\ny 3\n")
			if got := res.Header.Get("Sluice-Unserved"); got != "x=kind_conflict" {
				g.Errorf("Sluice-Unserved: %s", got)
			}
			g.exposes(`x{instance="",job="a"} 1`, `x{instance="",job="b"} 2`, `y{instance="",job="b"} 3`)
		}},
		{"NaN and infinity are kept and not served", func(g gateway) {
			res := g.wants(200, `{"applied":1,"refused":2}`, "PUT", "/metrics/job/a", "x NaN\ny +Inf\n# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 0\ns_count 0\n")
			if got := res.Header.Get("Sluice-Unserved"); got != "x=value, y=value" {
				g.Errorf("Sluice-Unserved: %s", got)
			}
			g.exposes(`s{instance="",job="a",quantile="0.5"} NaN`, `s_sum{instance="",job="a"} 0`, `s_count{instance="",job="a"} 0`, `x{instance="",job="a"} NaN`, `y{instance="",job="a"} +Inf`)
			if g.served("x", "job", "a", "instance", "") {
				g.Error("NaN is served")
			}
		}},
		{"names that the metrics APIs cannot ask for are kept and not served", func(g gateway) {
			res := g.wants(200, "", "PUT", "/metrics/job/a", "{\"a:p99\"} 1\n{\"\xc3\xa4?\"} 2\n")
			if got := res.Header.Get("Sluice-Unserved"); got != `a:p99=name, "\u00e4?"=name` {
				g.Errorf("Sluice-Unserved: %s", got)
			}
		}},
		{"malformed text", func(g gateway) {
			g.wants(400, `"line":2,"offset":3`, "PUT", "/metrics/job/a", "x 1\ny{ 2\n")
			g.wants(400, "line 2, column 4", "PUT", "/metrics/job/a", "x 1\ny{ 2\n")
			g.wants(400, "", "PUT", "/metrics/job/a", "\x00\x01")
			if n := g.groups.Count(); n != 0 {
				g.Errorf("what cannot be read made %d groups", n)
			}
		}},
		{"malformed protobuf", func(g gateway) {
			g.wants(400, "", "PUT", "/metrics/job/a", "\xff\xff\xff", text, delimited)
			g.wants(415, "encoding=delimited", "PUT", "/metrics/job/a", "", text, "application/vnd.google.protobuf; encoding=text")
		}},
		{"any other content type is text", func(g gateway) {
			for _, one := range []string{"", "text/plain; version=0.0.4", "application/x-www-form-urlencoded", "nonsense;;"} {
				g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n", text, one)
			}
		}},
		{"delimited protobuf", func(g gateway) {
			body := delimitedText(g.T,
				&dto.MetricFamily{Name: proto.String("x"), Type: dto.MetricType_COUNTER.Enum(), Metric: []*dto.Metric{{Counter: &dto.Counter{Value: proto.Float64(3)}}}},
				&dto.MetricFamily{Name: proto.String("h"), Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{{Histogram: &dto.Histogram{
					SampleCount: proto.Uint64(3), SampleSum: proto.Float64(4), Schema: proto.Int32(0), ZeroThreshold: proto.Float64(.1),
					PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(1), Length: proto.Uint32(2)}}, PositiveDelta: []int64{1, 1}}}}})
			g.wants(200, `"applied":2`, "PUT", "/metrics/job/a", body, text, delimited)
			g.wants(200, `"buckets":[[0,"1","2","1"],[0,"2","4","2"]]`, "GET", "/api/v1/metrics", "")
		}},
		{"compressed bodies", func(g gateway) {
			for i, coding := range []string{"gzip", "snappy", "zstd"} {
				g.wants(200, "", "PUT", "/metrics/job/a", compressed(g.T, coding, fmt.Sprintf("x %d\n", i)), "Content-Encoding", coding)
				g.exposes(fmt.Sprintf(`x{instance="",job="a"} %d`, i))
			}
			g.wants(200, "", "PUT", "/metrics/job/a", string(s2.EncodeSnappy(nil, []byte("x 9\n"))), "Content-Encoding", "snappy")
			g.exposes(`x{instance="",job="a"} 9`)
			for _, coding := range []string{"gzip", "snappy", "zstd"} {
				g.wants(400, "not what Content-Encoding says", "PUT", "/metrics/job/a", "\xf0no", "Content-Encoding", coding)
			}
			g.wants(415, "must be one of gzip", "PUT", "/metrics/job/a", "x 1", "Content-Encoding", "br")
		}},
		{"bodies over the limit, before and after decompression", func(g gateway) {
			g.wants(413, "", "PUT", "/metrics/job/a", strings.Repeat("# a comment\n", 10_000))
			bomb := strings.Repeat("\n", 10<<20)
			for _, coding := range []string{"gzip", "snappy", "zstd"} {
				body := compressed(g.T, coding, bomb)
				if len(body) > 64<<10 {
					continue // snappy's framing does not get there
				}
				g.wants(413, "decompressed body", "PUT", "/metrics/job/a", body, "Content-Encoding", coding)
			}
			g.wants(413, "decompressed body", "PUT", "/metrics/job/a", compressed(g.T, "snappy", strings.Repeat("\n", 1<<20)), "Content-Encoding", "snappy")
			g.wants(413, "decompressed body", "PUT", "/metrics/job/a", string(s2.EncodeSnappy(nil, []byte(strings.Repeat("\n", 1<<20)))), "Content-Encoding", "snappy")
			g.wants(413, "", "PUT", "/metrics/job/a", "\xff\xff\xff\xff\x0f", "Content-Encoding", "snappy")
		}},
		{"GET /metrics in OpenMetrics, when asked", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "# TYPE x_total counter\n# HELP x_total help\nx_total 1\n")
			res, body := g.ask("GET", "/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4")
			if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0") || !strings.HasSuffix(body, "# EOF\n") || !strings.Contains(body, "# TYPE x counter\nx_total{") {
				g.Errorf("%s\n%s", res.Header.Get("Content-Type"), body)
			}
			for _, accept := range []string{"", "*/*", "text/plain", "application/openmetrics-text;q=0.3,text/plain;q=0.4", "application/openmetrics-text;q=0"} {
				if res, _ := g.ask("GET", "/metrics", "", "Accept", accept); res.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8; escaping=underscores" {
					g.Errorf("Accept %q: %s", accept, res.Header.Get("Content-Type"))
				}
			}
			if _, body := g.ask("GET", "/metrics", ""); !strings.Contains(body, "# HELP push_time_seconds Last Unix time") || !strings.Contains(body, `push_failure_time_seconds{instance="",job="a"} 0`) {
				g.Error(body)
			}
		}},
		{"what is exposed can be pushed again", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "# TYPE x counter\nx 1\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 2\nh_count 2\n")
			_, all := g.ask("GET", "/metrics", "")
			g.wants(200, `"refused":2`, "PUT", "/metrics/job/a", all)
			_, again := g.ask("GET", "/metrics", "")
			if strings.Count(again, "\n") != strings.Count(all, "\n") {
				g.Errorf("%s\nwant:\n%s", again, all)
			}
		}},
		{"GET /api/v1/metrics", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/l/1", "# HELP x help\n# TYPE x counter\nx{m=\"2\"} 1e9\n# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 0.5\ns_count 3\n# TYPE h histogram\nh_bucket{le=\"0.1\"} 1\nh_sum 2\nh_count 2\n")
			var answer struct {
				Status string
				Data   []map[string]json.RawMessage
			}
			_, body := g.ask("GET", "/api/v1/metrics", "")
			if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" || len(answer.Data) != 1 {
				g.Fatal(err, body)
			}
			for key, want := range map[string]string{
				"labels":                    `{"job":"a","l":"1"}`,
				"last_push_successful":      `true`,
				"x":                         `"type":"COUNTER","help":"help","metrics":[{"labels":{"instance":"","job":"a","l":"1","m":"2"},"value":"1e+09"}]}`,
				"s":                         `"type":"SUMMARY","metrics":[{"count":"3","labels":{"instance":"","job":"a","l":"1"},"quantiles":{"0.5":"NaN"},"sum":"0.5"}]}`,
				"h":                         `"type":"HISTOGRAM","metrics":[{"buckets":{"+Inf":"2","0.1":"1"},"count":"2","labels":{"instance":"","job":"a","l":"1"},"sum":"2"}]}`,
				"push_time_seconds":         `"type":"GAUGE"`,
				"push_failure_time_seconds": `"value":"0"}]}`,
			} {
				if !strings.Contains(string(answer.Data[0][key]), want) {
					g.Errorf("%s: %s, want %s", key, answer.Data[0][key], want)
				}
			}
			if _, there := answer.Data[0]["expires"]; there {
				g.Error("a group that lives for ever expires")
			}
			g.wants(400, "", "POST", "/metrics/job/a/l/1", "x 1 1\n")
			g.wants(200, `"last_push_successful":false`, "GET", "/api/v1/metrics", "")
		}},
		{"GET /api/v1/metrics of nothing", func(g gateway) {
			g.wants(200, `{"status":"success","data":[]}`, "GET", "/api/v1/metrics", "")
		}},
		{"GET /api/v1/status", func(g gateway) {
			g.wants(200, `{"status":"success","data":{"build_information":`, "GET", "/api/v1/status", "")
		}},
		{"health", func(g gateway) {
			g.wants(200, "OK", "GET", "/-/ready", "")
			g.wants(200, "OK", "GET", "/-/healthy", "")
			g.wants(200, "", "HEAD", "/-/healthy", "")
		}},
		{"wipe is off", func(g gateway) {
			g.wants(404, "", "PUT", "/api/v1/admin/wipe", "")
			g.wants(404, "", "POST", "/-/quit", "")
		}},
		{"wrong methods", func(g gateway) {
			g.wants(405, "", "GET", "/metrics/job/a", "")
			g.wants(405, "", "PUT", "/metrics", "")
			g.wants(405, "", "DELETE", "/api/v1/metrics", "")
			g.wants(405, "", "PUT", "/-/ready", "")
		}},
		{"a time to live", func(g gateway) {
			for ttl, status := range map[string]int{"1h": 200, "forever": 200, "1": 400, "1ms": 400, "-1h": 400} {
				g.wants(status, "", "PUT", "/metrics/job/a", "x 1\n", "Sluice-TTL", ttl)
			}
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n", "Sluice-TTL", "1h")
			if left := time.Until(g.groups.All(nil)[0].Expires); left < 59*time.Minute || left > time.Hour {
				g.Errorf("%v are left of 1h", left)
			}
			g.wants(200, `"expires":"20`, "GET", "/api/v1/metrics", "")
			g.sweep(g.table.Lifetime() + 2*time.Hour)
			g.exposes()
			if g.served("x", "job", "a", "instance", "") {
				g.Error("it is served after its time")
			}
			g.wants(200, "", "PUT", "/metrics/job/a?ttl=2h", "x 1\n")
			if left := time.Until(g.groups.All(nil)[0].Expires); left < 119*time.Minute {
				g.Errorf("%v are left of 2h", left)
			}
		}},
		{"waiting for the disk", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a?sync=true", "x 1\n")
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n", "Sluice-Sync", "true")
			g.wants(202, "", "DELETE", "/metrics/job/a?sync=true", "")
			if n := g.disk.calls.Load(); n != 3 {
				g.Errorf("the disk was waited for %d times, want 3", n)
			}
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n", "Sluice-Sync", "false")
			g.wants(400, "must be true, all or false", "PUT", "/metrics/job/a", "x 1\n", "Sluice-Sync", "yes")
			g.disk.err = fmt.Errorf("it is full")
			g.wants(503, "it is full", "PUT", "/metrics/job/a", "x 2\n", "Sluice-Sync", "true")
			g.exposes(`x{instance="",job="a"} 2`)
		}},
		{"over a limit", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
			g.table.refuse["z"] = metric.OverLimit
			g.wants(429, `"refused":3`, "PUT", "/metrics/job/a", "x 2\ny 2\nz 2\n")
			g.exposes(`x{instance="",job="a"} 1`)
			if g.served("y", "job", "a", "instance", "") {
				g.Error("a part of a refused push is served")
			}
			g.table.applied-- // y, which was taken back
			if g.replica != nil {
				g.table.applied-- // x, which the other replica did not have yet
			}
		}},
		{"too many metrics for one push", func(g gateway) {
			var b strings.Builder
			for i := range 2000 {
				fmt.Fprintf(&b, "a%d 1\n", i)
			}
			g.wants(413, "which is the limit", "PUT", "/metrics/job/a", b.String())
		}},
		{"a namespace by its label", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/namespace/shop", "x 1\n")
			if g.table.get(metric.Object{Namespace: "shop"}, "x", metric.Label{Key: "job", Value: "a"}, metric.Label{Key: "namespace", Value: "shop"}, metric.Label{Key: "instance"}) == nil {
				g.Error("it is not in its namespace")
			}
			g.wants(400, "is not a namespace", "PUT", "/metrics/job/a/namespace/Shop", "x 1\n")
		}},
		{"an object by its label", func(g gateway) {
			g.wants(200, "", "PUT", "/metrics/job/a/namespace/shop/sluice_object@base64/cG9kcy93ZWItMQ", "x 1\n")
			if g.table.get(metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, "x", metric.Label{Key: "job", Value: "a"}, metric.Label{Key: "instance"}) == nil {
				g.Error("it is not the pod's")
			}
			g.wants(200, "", "PUT", "/metrics/job/a/sluice_object/nodes%2Fn1", "x 1\n")
			if g.table.get(metric.Object{Resource: "nodes", Name: "n1"}, "x", metric.Label{Key: "job", Value: "a"}, metric.Label{Key: "instance"}) == nil {
				g.Error("it is not the node's")
			}
			g.wants(200, "", "PUT", "/metrics/job/a/sluice_object/external%2Fbank", "x 1\n")
			if g.table.get(metric.Object{Namespace: "bank"}, "x", metric.Label{Key: "job", Value: "a"}, metric.Label{Key: "instance"}) == nil {
				g.Error("it is not an external of bank")
			}
			for _, bad := range []string{"pods", "pods%2Fweb-1", "%2Fa", "things%2Fa", "nodes%2F", "external%2FBank", "nodes%2F*"} {
				if res, body := g.ask("PUT", "/metrics/job/a/sluice_object/"+bad, "x 1\n"); res.StatusCode != 400 && res.StatusCode != 404 {
					g.Errorf("%s: %d %s", bad, res.StatusCode, body)
				}
			}
		}},
	} {
		documented = slices.DeleteFunc(documented, func(name string) bool { return name == c.name })
		small := func(c *Config, _ *Parts) { c.MaxBodyBytes = 64 << 10 }
		t.Run(c.name, func(t *testing.T) {
			c.do(gateway{start(t, small)})
		})
		t.Run(c.name+", at two replicas in turn", func(t *testing.T) {
			c.do(gateway{startReplicas(t, small)})
		})
	}
	if len(documented) > 0 {
		t.Errorf("docs/pushgateway.md names cases that there are not: %q", documented)
	}
}

// documentedCases are the cases that docs/pushgateway.md names: what stands in the last column of
// its table and is no test's name.
func documentedCases(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/pushgateway.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "|---|---|---|\n| `/metrics/job/")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 {
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(cells[2], "|"), ";") {
			if name = strings.TrimSpace(name); name != "" && !strings.HasPrefix(name, "`") {
				names = append(names, name)
			}
		}
	}
	if len(names) < 30 {
		t.Fatalf("docs/pushgateway.md names %d cases: the test does not see what it should", len(names))
	}
	return names
}

func TestWipe(t *testing.T) {
	g := gateway{start(t, func(c *Config, _ *Parts) { c.AdminWipe, c.GroupTTL = true, time.Hour })}
	for i := range 3 {
		g.wants(200, "", "PUT", fmt.Sprint("/metrics/job/", i), "x 1\n")
	}
	g.wants(200, `"expires"`, "GET", "/api/v1/metrics", "") // the default
	g.wants(200, "", "PUT", "/metrics/job/1", "x 1\n", "Sluice-TTL", "forever")
	g.wants(202, `"deleted":3`, "PUT", "/api/v1/admin/wipe", "")
	g.wants(405, "", "GET", "/api/v1/admin/wipe", "")
	g.exposes()
}

// With other replicas, a wipe first waits for their groups. It deletes what it knows if one is not heard.
func TestWipeHearsReplicas(t *testing.T) {
	replicas := &others{}
	var g gateway
	replicas.heard = func() error { // a group of another replica arrives
		g.wants(200, "", "PUT", "/metrics/job/late", "x 1\n")
		return replicas.err
	}
	g = gateway{start(t, func(c *Config, p *Parts) { c.AdminWipe, p.Replicas = true, replicas })}
	g.wants(200, "", "PUT", "/metrics/job/known", "x 1\n")
	g.wants(202, `"deleted":2`, "PUT", "/api/v1/admin/wipe", "")
	replicas.err = errors.New("sluice-0 was not heard")
	g.wants(503, "1 groups were deleted, but not all replicas were heard; wipe again: sluice-0 was not heard", "PUT", "/api/v1/admin/wipe", "")
	g.exposes()
}

// The client that everybody has.
func TestClientGolang(t *testing.T) {
	for name, format := range map[string]expfmt.Format{
		"text": expfmt.NewFormat(expfmt.TypeTextPlain), "protobuf": expfmt.NewFormat(expfmt.TypeProtoDelim), "default": "",
	} {
		t.Run(name, func(t *testing.T) {
			g := gateway{start(t)}
			counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jobs_total", Help: "Jobs."}, []string{"kind"})
			counter.WithLabelValues("a").Add(3)
			histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Buckets: []float64{1, 2}, NativeHistogramBucketFactor: 1.1})
			histogram.Observe(1.5)
			gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "last"})
			gauge.Set(7)
			summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "size", Objectives: map[float64]float64{.5: .1}})
			p := push.New(g.url, "a/b").Grouping("host", "").Grouping("disk", "/var").Collector(counter).Collector(histogram).Collector(gauge).Collector(summary)
			other := push.New(g.url, "a/b").Grouping("host", "").Grouping("disk", "/var").Collector(gauge)
			if format != "" {
				p, other = p.Format(format), other.Format(format)
			}
			must(t, p.Push())
			gauge.Set(8)
			must(t, other.Add())
			const l = `disk="/var",host="",instance="",job="a/b"`
			g.exposes(`jobs_total{`+l+`,kind="a"} 3`, `last{`+l+`} 8`, `size{`+l+`,quantile="0.5"} NaN`, `size_sum{`+l+`} 0`, `size_count{`+l+`} 0`,
				`took_seconds_bucket{`+l+`,le="1"} 0`, `took_seconds_bucket{`+l+`,le="2"} 1`, `took_seconds_bucket{`+l+`,le="+Inf"} 1`, `took_seconds_sum{`+l+`} 1.5`, `took_seconds_count{`+l+`} 1`)
			must(t, other.Push())
			g.exposes(`last{` + l + `} 8`)
			must(t, p.Delete())
			g.exposes()
			if len(g.table.series) != 0 {
				t.Errorf("%d series are left", len(g.table.series))
			}
		})
	}
}

// A connection is used again after an answer that was written piece by piece, and after a request
// without a body.
func TestConnectionsAreKept(t *testing.T) {
	g := gateway{start(t)}
	g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
	for _, path := range []string{"/metrics", "/api/v1/metrics", "/api/v1/status", "/-/ready", "/v1"} {
		if res := g.wants(200, "", "GET", path, ""); res.Close {
			t.Errorf("GET %s ends the connection", path)
		}
	}
	before := runtime.NumGoroutine()
	for range 50 {
		for _, path := range []string{"/metrics", "/api/v1/metrics"} {
			if res := g.wants(200, "", "HEAD", path, ""); res.Close {
				t.Errorf("HEAD %s ends the connection", path)
			}
		}
	}
	waitFor(t, func() bool { return runtime.NumGoroutine() <= before+10 })
}

// A native histogram that was pushed comes out as one where protobuf is asked for, and by its other
// buckets elsewhere.
func TestExposesNativeHistograms(t *testing.T) {
	g := gateway{start(t)}
	body := delimitedText(t, &dto.MetricFamily{
		Name: proto.String("h"), Type: dto.MetricType_HISTOGRAM.Enum(),
		Metric: []*dto.Metric{{Histogram: &dto.Histogram{
			SampleCount: proto.Uint64(8), SampleSum: proto.Float64(8), Schema: proto.Int32(3), ZeroThreshold: proto.Float64(0.001), ZeroCount: proto.Uint64(2),
			PositiveSpan:  []*dto.BucketSpan{{Offset: proto.Int32(-2), Length: proto.Uint32(3)}},
			PositiveDelta: []int64{1, 2, -1},
		}}},
	})
	g.wants(200, `"applied":1`, "PUT", "/metrics/job/a", body, "Content-Type", delimited)
	res, out := g.ask("GET", "/metrics", "", "Accept", delimited+"; escaping=allow-utf-8")
	if got := res.Header.Get("Content-Type"); got != delimited+"; escaping=allow-utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	reader := exposition.NewProtobufReader(exposition.DefaultOptions())
	families, fault := reader.Read([]byte(out))
	if fault.Reason != metric.Applied || len(families) != 3 { // the two that every group has, too
		t.Fatal(fault, len(families))
	}
	n := families[0].Metrics[0].Histogram.Native
	if n == nil || n.Schema != 3 || n.ZeroCount != 2 || len(n.PositiveCounts) != 3 || n.PositiveCounts[1] != 3 {
		t.Errorf("%+v", n)
	}
	if _, again := g.ask("GET", "/metrics", "", "Accept", "text/plain"); again == out {
		t.Error("text is protobuf")
	}
	g.exposes(`h_bucket{instance="",job="a",le="+Inf"} 8`, `h_sum{instance="",job="a"} 8`, `h_count{instance="",job="a"} 8`)
}
