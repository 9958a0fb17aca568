package push

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

var (
	web1     = metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}
	ingress  = metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "main"}
	shop     = metric.Object{Resource: "namespaces", Name: "shop"}
	nodeA    = metric.Object{Resource: "nodes", Name: "a.example.com"}
	external = metric.Object{Namespace: "shop"}
	global   = metric.Object{}
)

func TestEveryPathTakesEveryMethodAndType(t *testing.T) {
	h := start(t)
	places := []struct {
		path   string
		object metric.Object
	}{
		{"/v1/namespaces/shop/pods/web-1/", web1},
		{"/v1/namespaces/shop/ingresses/main/", ingress},
		{"/v1/namespaces/shop/ingresses.networking.k8s.io/main/", ingress},
		{"/v1/namespaces/shop/metrics/", shop},
		{"/v1/nodes/a.example.com/", nodeA},
		{"/v1/namespaces/shop/external/", external},
		{"/v1/external/", global},
	}
	pushes := []struct {
		method, query, body string
		status              int
		kind                metric.Kind
		op                  metric.Op
		value               float64
	}{
		{"PUT", "", "7", 200, metric.Gauge, metric.Assign, 7},
		{"PUT", "type=gauge", "-7.5", 200, metric.Gauge, metric.Assign, -7.5},
		{"POST", "", "7", 200, metric.Counter, metric.Add, 7},
		{"POST", "type=counter", " +7\r\n", 200, metric.Counter, metric.Add, 7},
		{"POST", "type=gauge", "-2", 200, metric.Gauge, metric.Shift, -2},
		{"POST", "type=timer", "12.25", 200, metric.Timer, metric.Observe, 12.25},
		{"POST", "type=histogram", "12.25", 200, metric.Timer, metric.Observe, 12.25},
		{"POST", "type=distribution", "12.25", 200, metric.Timer, metric.Observe, 12.25},
		{"POST", "type=set", "a:b|c\n", 200, metric.Set, metric.Insert, 1},
		{"PUT", "type=counter", "1", 400, 0, 0, 0},
		{"PUT", "type=timer", "1", 400, 0, 0, 0},
		{"PUT", "type=set", "1", 400, 0, 0, 0},
		{"POST", "type=rate", "1", 400, 0, 0, 0},
	}
	for i, place := range places {
		for j, push := range pushes {
			name := fmt.Sprintf("m.%d.%d", i, j)
			path := place.path + name + "?" + push.query
			t.Run(push.method+path, func(t *testing.T) {
				status, answer := h.do(push.method, path, push.body)
				if status != push.status {
					t.Fatalf("status %d, want %d: %s", status, push.status, answer)
				}
				e := h.table.get(place.object, name)
				if push.status != 200 {
					if e != nil {
						t.Fatal("it was applied nevertheless")
					}
					return
				}
				if want := "{\"applied\":1,\"refused\":0}\n"; answer != want {
					t.Errorf("answer %q, want %q", answer, want)
				}
				if e == nil {
					t.Fatalf("nothing at %v", place.object)
				}
				if got := float64(e.whole) + e.rest; e.kind != push.kind || e.last.Op != push.op || got != push.value {
					t.Errorf("%v op %d value %v, want %v op %d value %v", e.kind, e.last.Op, got, push.kind, push.op, push.value)
				}
				if e.last.TTL != metric.Forever {
					t.Errorf("TTL %v, want forever", e.last.TTL)
				}
			})
		}
	}
}

func TestParameters(t *testing.T) {
	h := start(t)
	status, answer := h.do("POST", "/v1/external/jobs?label=queue%3Dmail+out&label=url=http://a/b?c&ttl=90m&rate=0.1&sync=true", "3")
	if status != 200 {
		t.Fatal(status, answer)
	}
	e := h.table.get(global, "jobs", metric.Label{Key: "queue", Value: "mail out"}, metric.Label{Key: "url", Value: "http://a/b?c"})
	if e == nil {
		t.Fatalf("the labels did not arrive: %v", h.table.series)
	}
	if e.last.TTL != 90*time.Minute || e.last.Rate != 0.1 || h.disk.calls.Load() != 1 {
		t.Errorf("ttl %v, rate %v, %d syncs", e.last.TTL, e.last.Rate, h.disk.calls.Load())
	}
	if status, answer := h.do("PUT", "/v1/external/g?ttl=forever", "3"); status != 200 || h.table.get(global, "g").last.TTL != metric.Forever {
		t.Error(status, answer)
	}
}

// Every refusal: its status, its reason in the answer, and what it is in the ledger.
func TestRefusals(t *testing.T) {
	const pod = "/v1/namespaces/shop/pods/web-1/"
	many := strings.Repeat("&label=a%d=b", 65)
	for i := range 65 {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		reason, says       string
		ledger             metric.Reason // Applied: not in the ledger
	}{
		{"PUT", pod + "m", "", 400, "malformed", "missing", metric.Malformed},
		{"PUT", pod + "m", "abc", 400, "malformed", `\"abc\" is not a number`, metric.Malformed},
		{"PUT", pod + "m", strings.Repeat("y", 300), 400, "malformed", strings.Repeat("y", 256) + `... (300 bytes)\" is not a number`, metric.Malformed},
		{"PUT", pod + "m", ` {"value":3}`, 400, "malformed", "JSON goes to POST /v1/samples", metric.Malformed},
		{"POST", pod + "m?type=timer", `[1,2]`, 400, "malformed", "JSON goes to POST /v1/samples", metric.Malformed},
		{"PUT", pod + "m", "1 2", 400, "malformed", `"offset":1`, metric.Malformed},
		{"PUT", pod + "m", "  0x1F", 400, "malformed", `"offset":3`, metric.Malformed},
		{"PUT", pod + "m", "007", 400, "malformed", "leading zeros", metric.Malformed},
		{"PUT", pod + "m", "1.", 400, "malformed", "ends too early", metric.Malformed},
		{"PUT", pod + "m", "NaN", 400, "value", "NaN", metric.BadValue},
		{"PUT", pod + "m", "-inf", 400, "value", "infinite", metric.BadValue},
		{"PUT", pod + "m", "1e999", 400, "value", "beyond", metric.BadValue},
		{"POST", pod + "m?type=set", "", 400, "malformed", "empty", metric.Malformed},
		{"POST", pod + "m?type=set", strings.Repeat("x", 1025), 400, "too_long", "1025", metric.TooLong},
		{"POST", pod + "m?type=timer", "", 400, "malformed", "missing", metric.Malformed},
		{"PUT", pod + "m?type=counter", "1", 400, "malformed", "use POST", metric.Malformed},
		{"PUT", pod + "m?type=set", "1", 400, "malformed", "use POST", metric.Malformed},
		{"PUT", pod + "m?type=x", "1", 400, "malformed", "counter, gauge", metric.Malformed},
		{"PUT", pod + "m?rate=0.5", "1", 400, "rate", "gauge", metric.BadRate},
		{"POST", pod + "m?rate=0", "1", 400, "rate", "above 0", metric.BadRate},
		{"POST", pod + "m?rate=1.5", "1", 400, "rate", "at most 1", metric.BadRate},
		{"POST", pod + "m?rate=NaN", "1", 400, "rate", "above 0", metric.BadRate},
		{"POST", pod + "m?rate=x", "1", 400, "rate", `the rate: \"x\" is not a number`, metric.BadRate},
		{"PUT", pod + "m?ttl=1", "1", 400, "malformed", "1h30m", metric.Malformed},
		{"PUT", pod + "m?ttl=-1h", "1", 400, "malformed", "at least", metric.Malformed},
		{"PUT", pod + "m?label=x", "1", 400, "malformed", "key=value", metric.Malformed},
		{"PUT", pod + "m?label==x", "1", 400, "malformed", "no key", metric.Malformed},
		{"PUT", pod + "m?label=a=1&label=a=2", "1", 400, "malformed", "twice", metric.Malformed},
		{"PUT", pod + "m?label=a=%ff", "1", 400, "malformed", "UTF-8", metric.Malformed},
		{"PUT", pod + "m?label=a=" + strings.Repeat("x", 1025), "1", 400, "too_long", "1025", metric.TooLong},
		{"PUT", pod + "m?label=" + strings.Repeat("x", 1025) + "=a", "1", 400, "too_long", "1025", metric.TooLong},
		{"PUT", pod + "m?" + many[1:], "1", 400, "too_long", "64", metric.TooLong},
		{"PUT", pod + "m?sync=yes", "1", 400, "malformed", "true, all or false", metric.Malformed},
		{"PUT", pod + "m?ttl=1h&ttl=2h", "1", 400, "malformed", "twice", metric.Malformed},
		{"PUT", pod + "m?tll=1h", "1", 400, "malformed", "type, label, ttl, rate, sync", metric.Malformed},
		{"PUT", pod + "m?label=a=%zz", "1", 400, "malformed", "hexadecimal", metric.Malformed},
		{"PUT", pod + "m:p95", "1", 400, "name", "stat or a window", metric.BadName},
		{"PUT", pod + "m%25", "1", 400, "name", "%", metric.BadName},
		{"PUT", pod + "m%3F", "1", 400, "name", "?", metric.BadName},
		{"PUT", pod + "m%0A", "1", 400, "name", "control", metric.BadName},
		{"PUT", pod + "m%ff", "1", 400, "name", "UTF-8", metric.BadName},
		{"PUT", pod + "status", "1", 400, "name", "status", metric.BadName},
		{"PUT", pod + "..", "1", 400, "name", "..", metric.BadName},
		{"PUT", pod + "%2e%2E", "1", 400, "name", "..", metric.BadName},
		{"PUT", pod + strings.Repeat("m", 513), "1", 400, "too_long", "513", metric.TooLong},
		{"PUT", "/v1/namespaces/Shop/pods/web-1/m", "1", 400, "name", "Shop", metric.BadName},
		{"PUT", "/v1/namespaces/../pods/web-1/m", "1", 400, "name", "..", metric.BadName},
		{"PUT", "/v1/namespaces/Shop/metrics/m", "1", 400, "name", "Shop", metric.BadName},
		{"PUT", "/v1/namespaces/shop/pods/../m", "1", 400, "name", "..", metric.BadName},
		{"PUT", "/v1/namespaces/shop/pods/a%2Fb/m", "1", 400, "name", "a/b", metric.BadName},
		{"PUT", "/v1/namespaces/shop/pods/*/m", "1", 400, "name", "*", metric.BadName},
		{"PUT", "/v1/namespaces/shop/widgets/a/m", "1", 404, "not_found", "widgets", metric.Identity},
		{"PUT", "/v1/namespaces/shop/soon/a/m", "1", 503, "pending", "known yet", metric.Identity},
		{"PUT", "/v1/namespaces/shop/events/a/m", "1", 400, "identity", "ambiguous", metric.Identity},
		{"PUT", "/v1/pods/web-1/m", "1", 400, "identity", "/v1/namespaces/{namespace}/pods/web-1/{metric}", metric.Identity},
		{"PUT", "/v1/namespaces/shop/nodes/a/m", "1", 400, "identity", "/v1/nodes/a/{metric}", metric.Identity},
		{"PUT", "/v1/namespaces/shop/namespaces/shop/m", "1", 400, "identity", "/v1/namespaces/shop/metrics/{metric}", metric.Identity},
		{"PUT", "/v1/external/refused.conflict", "1", 409, "kind_conflict", "another kind", metric.KindConflict},
		{"PUT", "/v1/external/refused.limit", "1", 429, "limit", "the series limit is reached", metric.OverLimit},
		{"PUT", "/v1/external/refused.identity", "1", 403, "identity", "must not push to", metric.Identity},
		{"PUT", "/v1/external/refused.ignored", "1", 400, "ignored", "ignored", metric.Ignored},
		{"PUT", "/v1/external/refused.value", "1", 400, "value", "refused", metric.BadValue},

		{"PUT", "/v1/namespaces/shop/m", "1", 400, "malformed", "/v1/namespaces/shop/metrics/m", metric.Applied},
		{"PUT", "/v1/namespaces/shop/external", "1", 400, "malformed", "name is missing: /v1/namespaces/shop/external/{metric}", metric.Applied},
		{"PUT", "/v1/namespaces/shop/metrics", "1", 400, "malformed", "name is missing: /v1/namespaces/shop/metrics/{metric}", metric.Applied},
		{"PUT", "/v1/namespaces/shop/pods/web-1", "1", 400, "malformed", "name is missing: /v1/namespaces/shop/pods/web-1/{metric}", metric.Applied},
		{"PUT", "/v1/namespaces/shop/extrnal/q", "1", 400, "malformed", "did you mean /v1/namespaces/shop/external/q?", metric.Applied},
		{"PUT", "/v1/extrenal/q", "1", 400, "malformed", "did you mean /v1/external/q?", metric.Applied},
		{"PUT", "/v1/external", "1", 400, "malformed", "name is missing: /v1/external/{metric}", metric.Applied},
		{"PUT", "/v1/external/a/b", "1", 400, "malformed", `%2F`, metric.Applied},
		{"PUT", "/v2/external/a", "1", 404, "path", "/v1/samples", metric.Applied},
		{"PUT", "/v1/external/", "1", 404, "path", "empty segment", metric.Applied},
		{"PUT", "/v1//external/a", "1", 404, "path", "empty segment", metric.Applied},
		{"PUT", "/v1/a/b/c/d/e/f/g", "1", 404, "path", "/v1/samples", metric.Applied},
		{"PUT", "/metrics/x", "1", 404, "path", "/v1/samples", metric.Applied},
		{"PATCH", "/v1/external/a", "1", 405, "method", "GET, HEAD, PUT, POST, DELETE", metric.Applied},
		{"PUT", "/v1/samples", "1", 405, "method", "POST", metric.Applied},
		{"GET", "/v1/statsd", "", 405, "method", "POST", metric.Applied},
		{"POST", "/", "1", 405, "method", "GET", metric.Applied},
		{"GET", pod + "m?ttl=1h", "", 400, "malformed", "takes label", metric.Applied},
		{"GET", pod + "m", "", 404, "not_found", "no series", metric.Applied},
		{"GET", pod + "m:13s", "", 400, "asked", "10s, 1m", metric.Applied},
		{"GET", "/v1/widgets/a/m", "", 404, "not_found", "widgets", metric.Applied},
		{"DELETE", pod + "m", "", 404, "not_found", "no series", metric.Applied},
		{"DELETE", pod + "m:p95", "", 400, "name", "stat", metric.Applied},
	} {
		t.Run(c.method+" "+clipName(c.path)+" "+clipName(c.body), func(t *testing.T) {
			h := start(t)
			h.table.refuse = map[string]metric.Reason{
				"refused.conflict": metric.KindConflict, "refused.limit": metric.OverLimit, "refused.identity": metric.Identity,
				"refused.ignored": metric.Ignored, "refused.value": metric.BadValue,
			}
			res, answer := h.send(c.method, c.path, strings.NewReader(c.body))
			if res.StatusCode != c.status || !strings.Contains(answer, `"reason":"`+c.reason+`"`) || !strings.Contains(answer, c.says) {
				t.Errorf("%d %s, want %d, %q and %q", res.StatusCode, answer, c.status, c.reason, c.says)
			}
			if allow := res.Header.Get("Allow"); (allow != "") != (c.status == http.StatusMethodNotAllowed) {
				t.Errorf("Allow: %q", allow)
			}
			received := h.server.Account().Received()
			if c.ledger == metric.Applied {
				if received != 0 {
					t.Errorf("%d samples in the ledger", received)
				}
			} else if received != 1 || h.rejected(c.ledger) != 1 {
				t.Errorf("%d samples in the ledger, %d for %v", received, h.rejected(c.ledger), c.ledger)
			}
		})
	}
}

func clipName(s string) string {
	if len(s) > 60 {
		return s[:60]
	}
	return s
}

func TestTimerTakesSeveralNumbers(t *testing.T) {
	h := start(t)
	status, answer := h.do("POST", "/v1/external/latency?type=timer&rate=0.5", "1.5\n\n2\r\nx\n3")
	if status != 400 {
		t.Fatal(status, answer)
	}
	golden(t, "timer_partly.json", answer)
	if e := h.table.get(global, "latency"); float64(e.whole)+e.rest != 6.5 || e.last.Rate != 0.5 {
		t.Errorf("observed %v", e)
	}
	if h.server.Account().Applied() != 3 || h.rejected(metric.Malformed) != 1 {
		t.Error("the ledger is wrong")
	}
}

func TestSyncFailureSaysWhatWasApplied(t *testing.T) {
	h := start(t)
	h.disk.err = errors.New("disk full")
	res, answer := h.send("PUT", "/v1/external/m?sync=true", strings.NewReader("5"))
	if retry := res.Header.Get("Retry-After"); res.StatusCode != 503 || retry != "" {
		t.Fatalf("%d with Retry-After %q: want 503 without it, since a push of an increment would count twice",
			res.StatusCode, retry)
	}
	golden(t, "sync_failed.json", answer)
	if h.table.get(global, "m") == nil {
		t.Error("it was not applied")
	}
	if status, answer := h.do("POST", "/v1/samples?sync=true", `{"name":"n","type":"gauge","value":1}`); status != 503 || !strings.Contains(answer, `"applied":1`) {
		t.Error(status, answer)
	}
	if status, answer := h.do("DELETE", "/v1/external/m?sync=true", ""); status != 503 || !strings.Contains(answer, `"deleted":1`) {
		t.Error(status, answer)
	}
}

// The page of the API tells to send again what was not applied, and not what waits for a disk or a replica.
func TestThePageTellsWhenToSendAgain(t *testing.T) {
	page, err := os.ReadFile("../../docs/http-api.md")
	must(t, err)
	again, once := 0, 0
	for row := range strings.Lines(string(page)) {
		switch {
		case !strings.HasPrefix(row, "| 503"):
		case !strings.Contains(row, "`sync`") && !strings.Contains(row, "sync="):
			again++
		case strings.Contains(row, "no `Retry-After`") && strings.Contains(row, "applied"):
			once++
		default:
			t.Errorf("it tells to send again what is applied: %s", row)
		}
	}
	if again != 1 || once != 1 {
		t.Errorf("%d and %d rows of 503, want one of requests to send again and one of reason sync", again, once)
	}
}

func TestSyncWithoutAStoreIsRefusedBeforeAnythingIsDone(t *testing.T) {
	h := start(t, func(_ *Config, p *Parts) { p.Syncer = nil })
	for _, c := range [][3]string{
		{"PUT", "/v1/external/m?sync=true", "5"},
		{"POST", "/v1/samples?sync=true", `{"name":"n","type":"gauge","value":1}`},
		{"POST", "/v1/statsd?sync=true", "n:1|c"},
	} {
		if status, answer := h.do(c[0], c[1], c[2]); status != 400 || !strings.Contains(answer, `"reason":"sync"`) {
			t.Error(c, status, answer)
		}
	}
	if h.server.Account().Received() != 0 || len(h.table.series) != 0 {
		t.Error("something was applied")
	}
	h.wants(200, "", "PUT", "/v1/external/m?sync=false", "5")
}

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
	h.wants(200, `"replica":"sluice-1"`, "PUT", "/v1/external/m?sync=true", "5")
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
