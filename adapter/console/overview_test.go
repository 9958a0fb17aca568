package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// crowdOf is a source of a number of autoscalers that work.
func crowdOf(n int) *fakeSource {
	f := &fakeSource{}
	for i := range n {
		f.autoscalers = append(f.autoscalers, inspect.Autoscaler{Namespace: "team-" + strconv.Itoa(i%10), Name: "web-" + strconv.Itoa(i), TargetKind: "Deployment", TargetName: "web-" + strconv.Itoa(i), MinReplicas: 1, MaxReplicas: 9, CurrentReplicas: 2, DesiredReplicas: 2,
			Metrics: []inspect.AutoscalerMetric{{Source: "Pods", Name: "http_requests", TargetType: "AverageValue", Target: "10", Asked: true, Value: "12", Values: 2, Pods: 2}}})
	}
	return f
}

var spark = regexp.MustCompile(`<svg class="spark".*?</svg>`)

// The overview has 300 autoscalers, each with its value, its bar and what it has done, in a page of at most 100 kB
// without what is drawn. The worst are on top, in three words at most. Others are on further pages, and found by name.
func TestOverviewOfManyAutoscalers(t *testing.T) {
	f := crowdOf(310)
	f.autoscalers[200].Metrics[0].Missing, f.autoscalers[200].Metrics[0].Why = true, "none was ever received"
	f.autoscalers[150].Conditions = []inspect.AutoscalerCondition{{Type: "ScalingLimited", Status: "True", Reason: "TooManyReplicas", Message: "more than the maximum"}}
	f.autoscalers[151].ScaleDown = &inspect.ScalingRules{Tolerance: "0.5"}
	f.autoscalers[152].DesiredReplicas = 5
	s := made(t, f)
	for second := int64(0); second < 100; second += 10 {
		s.history.round(time.Now().Add(time.Duration(second-100) * time.Second))
	}
	run(t, s)
	_, body := get(t, s, "/overview")
	if size := len(spark.ReplaceAllString(body, "")); size > 100_000 {
		t.Errorf("the page has %d bytes", size)
	}
	rows := strings.Split(body, `<th scope="row">`)[1:]
	if len(rows) < scalesPerPage || !containsAll(body, []string{"1 of 310 autoscalers doesn", "310</span>", `from=300">Next`}) {
		t.Errorf("%d rows:\n%.3000s", len(rows), body)
	}
	for i, want := range []string{"web-200", "web-150", "web-152"} {
		if !strings.Contains(rows[i], want+"</bdi>") {
			t.Errorf("row %d isn't that of %s:\n%s", i, want, rows[i])
		}
	}
	if !containsAll(rows[0], []string{">metric missing</a>", "#findings"}) || strings.Contains(rows[0], `class="bar"`) {
		t.Errorf("the broken row:\n%s", rows[0])
	}
	if !containsAll(rows[1], []string{">limit maxReplicas</a>", "<b>12</b> / 10", `<rect width="120"/>`, `<svg class="spark"`}) {
		t.Errorf("the row at its limit:\n%s", rows[1])
	}
	if !containsAll(rows[2], []string{"<b>2</b> → <b>5</b>"}) {
		t.Errorf("the row that moves:\n%s", rows[2])
	}
	if _, body := get(t, s, "/overview?filter=web-151"); strings.Count(body, "<svg class=\"bar\"") != 1 || !containsAll(body, []string{"1 of 310", `class="band" x="50" width="60"`}) {
		t.Errorf("filtered:\n%s", body)
	}
	if _, body := get(t, s, "/overview?from=300"); strings.Count(body, `class="bar"`) != 10 {
		t.Errorf("the second page:\n%s", body)
	}
}

// Nothing wrong is one line.
func TestOverviewWithoutFaults(t *testing.T) {
	calm := func(p *Parts) {
		p.Health = func() Health { return Health{HeldSeries: 1, MaxSeries: 100, HeldBytes: 1, MaxBytes: 100, Replicas: 3} }
	}
	f := crowdOf(3)
	s := running(t, f, calm)
	_, body := get(t, s, "/overview")
	if !containsAll(body, []string{"All 3 autoscalers work, and nothing was rejected", "<b>3</b> known"}) || strings.Contains(body, `class="faults"`) {
		t.Errorf("%s", body)
	}
	f.rejections = []inspect.Rejection{{Namespace: "shop", Sender: "web-1", Reason: "identity", Metric: "a", Last: time.Now()}}
	f.agents = []inspect.Agent{{Node: "n", State: inspect.AgentCutOff}}
	if _, body := get(t, s, "/overview"); !containsAll(body, []string{`class="faults"`, "Samples were rejected 0s ago", "1 of 1 agents cut off"}) {
		t.Errorf("%s", body)
	}
}

// An overview without autoscalers says how to push, and shows what was pushed.
func TestOverviewOfTheFirstMinute(t *testing.T) {
	f := &fakeSource{}
	s := running(t, f, func(p *Parts) { p.Facts, p.Begin = nil, nil })
	if _, body := get(t, s, "/"); !containsAll(followed(t, s), []string{`bash -c &#39;echo &#34;http_requests:1|c&#34; &gt;/dev/udp/127.0.0.1/8125&#39;`, "The value appears here"}) {
		t.Errorf("%s", body)
	}
	f.metrics = []inspect.Metric{{Namespace: "shop", Name: "queue", Kind: "gauge", Series: 1, LastSample: time.Now()}}
	f.series = func(string, string, string, int) []inspect.Series { return []inspect.Series{{Value: "42.123456"}} }
	if body := followed(t, s); !containsAll(body, []string{">shop/queue</bdi>", "<b>42.1</b> <small>last</small>"}) {
		t.Errorf("%s", body)
	}
}

func followed(t *testing.T, s *Server) string {
	t.Helper()
	_, body := get(t, s, "/overview")
	return body
}

// denied may read nothing by its name, and no series.
type denied struct{ name string }

func (d denied) MayReadAll(_, expression string) bool { return metric.BareName(expression) != d.name }
func (d denied) MayHave(_, expression string, _ func(string) (string, bool)) bool {
	return metric.BareName(expression) != d.name
}
func (d denied) Unrestricted(string) bool { return false }

// A reader whom a policy keeps from an external metric sees no value of it: neither a number, nor a bar, nor a
// line; on no page, by no stat.
func TestNoPageShowsAMetricThatAPolicyDenies(t *testing.T) {
	f := &fakeSource{autoscalers: []inspect.Autoscaler{{Namespace: "shop", Name: "web", MinReplicas: 1, MaxReplicas: 9, CurrentReplicas: 1, DesiredReplicas: 1,
		Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "secret:mean:10s", TargetType: "Value", Target: "5", Asked: true, Value: "7777"}}}},
		metrics: []inspect.Metric{{Namespace: "shop", Name: "secret", Kind: "gauge", Series: 2, LastSample: time.Now()}, {Namespace: "shop", Name: "open", Kind: "gauge", Series: 2, LastSample: time.Now()}}}
	f.series = func(_, _, name string, _ int) []inspect.Series {
		if metric.BareName(name) == "secret" {
			return []inspect.Series{{Value: "7777"}, {Value: "7777", Labels: map[string]string{"a": "b"}}}
		}
		return []inspect.Series{{Value: "5555"}, {Value: "5555", Labels: map[string]string{"a": "b"}}}
	}
	s := made(t, f, func(p *Parts) {
		p.Readable = func(metric.Reader) inspect.Readable { return denied{"secret"} }
		p.Begin = func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) {
			return func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) { return 7777, true }
		}
	})
	for _, m := range []string{"secret", "open"} { // as another reader's pages have them recorded
		s.history.watch(subject{namespace: "shop", name: m}, []string{rowTotal}, time.Now())
	}
	s.history.round(time.Now())
	run(t, s)
	for _, path := range []string{"/overview", "/metrics", "/metrics?sort=-value", "/metric?namespace=shop&name=secret", "/metric?namespace=shop&name=secret&stat=mean&window=10s&minutes=60"} {
		if _, body := get(t, s, path); strings.Contains(body, "7777") || strings.Contains(body, `rect width="200"`) {
			t.Errorf("%s shows the value:\n%s", path, body)
		}
	}
	_, body := get(t, s, "/metrics")
	if strings.Count(body, `class="spark"`) != 1 || !strings.Contains(body, "<b>5555</b>") {
		t.Errorf("of two metrics, of which one may be read:\n%s", body)
	}
	if _, body := get(t, s, "/metric?namespace=shop&name=secret"); !containsAll(body, []string{"A policy keeps the series from you", "# a guess"}) {
		t.Errorf("%s", body)
	}
	if _, body := get(t, s, "/overview"); !strings.Contains(body, "hidden by a policy") {
		t.Errorf("%s", body)
	}
}

// Rates are written as the other numbers of a page.
func TestPerSecond(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.125: "0.125", 12.54: "12.5", 1000: "1\u2009000", 100852.3: "100\u2009852"} {
		if got := perSecond(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// Samples per second are those between two rounds, of each receiver, received and rejected.
func TestReceiversAreRecorded(t *testing.T) {
	h, _, _, _ := countingHistory(1)
	n := uint64(0)
	h.receivers = func() []Receiver {
		n += 100
		return []Receiver{{Name: "statsd_udp", Received: n, Rejected: []Count{{"identity", n / 10}}}}
	}
	now := time.Unix(1_800_000_000, 0)
	h.round(now)
	h.round(now.Add(2 * time.Second))
	for id, want := range map[string]float64{rowReceived + "statsd_udp": 50, rowRejected + "statsd_udp": 5} {
		if v, ok := h.newest(process, id, now.Add(2*time.Second)); !ok || v != want {
			t.Errorf("%s: %v, want %v", id, v, want)
		}
	}
}

// The list of 50,000 metrics is sorted by any column, filtered by a part of the name, and has a hundred rows.
func TestListOfMetrics(t *testing.T) {
	f := &fakeSource{series: func(_, _, name string, _ int) []inspect.Series { return []inspect.Series{{Value: name[1:]}} }}
	for i := range 300 {
		f.metrics = append(f.metrics, inspect.Metric{Namespace: "shop", Name: fmt.Sprintf("m%03d", i), Kind: "gauge", Series: 2 + i, LastSample: time.Unix(int64(i), 0)})
	}
	s := running(t, f)
	for path, first := range map[string]string{"/metrics": "m000", "/metrics?sort=-name": "m299", "/metrics?sort=-series": "m299", "/metrics?sort=age": "m299", "/metrics?sort=-value": "m299",
		"/metrics?filter=25": "m025", "/metrics?sort=-value&filter=25": "m259", "/metrics?sort=-value&from=200": "m099"} {
		resp, body := get(t, s, path)
		rows := strings.Split(body, `<th scope="row">`)[1:]
		if resp.StatusCode != http.StatusOK || len(rows) == 0 || len(rows) > metricsPerPage || !strings.Contains(rows[0], first+"</bdi>") {
			t.Errorf("%s: %d rows, want %s first:\n%.1500s", path, len(rows), first, body)
		}
	}
	if _, body := get(t, s, "/metrics?sort=-series"); !containsAll(body, []string{`aria-sort="descending"><a href="/metrics?sort=series"`, "1 to 100 of 300", `name="sort" value="-series"`}) {
		t.Errorf("%.3000s", body)
	}
}
