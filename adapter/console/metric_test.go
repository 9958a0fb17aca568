package console

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// The chosen series are drawn, at most 16, and listed though they aren't among the first. A page follows the stat
// and the window of its address; those that there are not are left out.
func TestChosenSeries(t *testing.T) {
	f := &fakeSource{metrics: []inspect.Metric{{Namespace: "shop", Name: "latency", Kind: "timer", Series: 500, LastSample: time.Now()}}}
	var asked sync.Map // names
	f.series = func(_, _, name string, limit int) (all []inspect.Series) {
		asked.Store(name, true)
		for i := range min(limit, 500) {
			all = append(all, inspect.Series{Labels: map[string]string{"i": strconv.Itoa(i)}, Value: "9966.6667"})
		}
		return all
	}
	s := running(t, f)
	page := "/metric?namespace=shop&name=latency"
	_, body := get(t, s, page)
	if strings.Count(body, " checked") != plottedSeries || !containsAll(body, []string{"100 of 500 series", "<b data-row=", ">9967</b>", "Series contain"}) {
		t.Errorf("%.4000s", body)
	}
	address := page + "&stat=p95&window=10s&minutes=60"
	for i := 480; i < 500; i++ {
		address += "&s=" + seriesKey(&inspect.Series{Labels: map[string]string{"i": strconv.Itoa(i)}})
	}
	if _, body = get(t, s, address); strings.Count(body, " checked") != maxPlotted || !containsAll(body, []string{">i=480<", `data-minutes="60"`, `<option value="p95" selected>`, "external latency:p95:10s"}) {
		t.Errorf("%.4000s", body)
	}
	if _, read := asked.Load("latency:p95:10s"); !read {
		t.Error("the values are not those of the stat")
	}
	if _, body = get(t, s, page+"&stat=total&window=7s&filter=i%3D49&digits=all"); !containsAll(body, []string{">i=499<", "9966.6667"}) || strings.Contains(body, ">i=50<") {
		t.Errorf("%.4000s", body)
	}
}

// The pages say how many autoscalers read a metric beyond those that they name, and lists are sorted by all of them.
func TestMoreReadersThanAreNamed(t *testing.T) {
	s := running(t, &fakeSource{metrics: []inspect.Metric{
		{Namespace: "shop", Name: "depth", Kind: "gauge", Series: 2, LastSample: time.Now(), ReadBy: []string{"shop/a", "shop/b"}},
		{Namespace: "shop", Name: "jobs", Kind: "gauge", Series: 2, LastSample: time.Now(), ReadBy: []string{"shop/web"}, ReadByMore: 39},
	}})
	if _, body := get(t, s, "/metric?namespace=shop&name=jobs"); !containsAll(body, []string{"Read by <a href=", "</a> and 39 more."}) {
		t.Errorf("%.2000s", body)
	}
	if _, body := get(t, s, "/metrics?sort=-readby"); !strings.Contains(body, "shop/web and 39 more") || strings.Index(body, ">jobs<") > strings.Index(body, ">depth<") {
		t.Errorf("%.4000s", body)
	}
}

// A row keeps each second of ten minutes and each ten seconds of an hour; what is older, and what was skipped, is
// unknown.
func TestRowsKeepAnHour(t *testing.T) {
	r := newRow("a")
	const first = 1_800_000_000
	at := int64(first)
	for ; at < first+4000; at++ {
		r.skip(at-1, at)
		if at%1000 != 3 {
			r.put(at, float64(at-first))
		}
	}
	at--
	for i, v := range r.read(at, 1, fineSeconds) {
		second := at - int64(fineSeconds-1-i)
		if want := float64(second - first); v != want && second%1000 != 3 || second%1000 == 3 && !math.IsNaN(v) {
			t.Fatalf("second %d: %v", second-first, v)
		}
	}
	slots := r.read(at, coarseStep, coarseSlots)
	if slots[0] != 409 || slots[coarseSlots-1] != 3999 {
		t.Errorf("an hour goes from %v to %v", slots[0], slots[coarseSlots-1])
	}
	r.skip(at, at+10_000)
	if !math.IsNaN(r.read(at+10_000, coarseStep, coarseSlots)[0]) || !math.IsNaN(r.read(at+10_000, 1, fineSeconds)[0]) {
		t.Error("values outlive the hour")
	}
}

// All rows together have at most 16 MiB.
func TestTheHistoryFitsIntoItsBound(t *testing.T) {
	if all := maxRows * (rowBytes + 128); all > 16<<20 {
		t.Errorf("%d bytes", all)
	}
}

// The texts to copy ask for exactly what is shown.
func TestTextsToCopy(t *testing.T) {
	one := &inspect.Series{Object: inspect.Reference{Name: "web-7c9d5b8f6-abcde"}, Labels: map[string]string{"code": "200"}}
	for name, c := range map[string]struct {
		h     howto
		wants []string
	}{
		"external": {howto{metric: &inspect.Metric{Namespace: "shop", Name: "jobs/done"}, expression: metric.Expression{Name: "jobs/done", Stat: metric.Rate}, stat: metric.Rate, one: &inspect.Series{Labels: map[string]string{"queue": "mail"}}, value: 12.3456},
			[]string{"sluice get -n shop external jobs/done:rate -l queue=mail", `namespaces/shop/jobs%5C%7Cdone:rate?labelSelector=queue%3Dmail`, `name: "jobs\\|done:rate"`, `"queue": "mail"`, `averageValue: "12.3"`, "type: External"}},
		"pods": {howto{metric: &inspect.Metric{Namespace: "shop", Resource: "pods", Name: "http"}, expression: metric.Expression{Name: "http"}, stat: metric.Rate, one: one, value: 0, kind: "Pod", apiVersion: "v1", namespaced: true},
			[]string{"get -n shop 'pods/*' http -l code=200", "'/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/%2A/http?metricLabelSelector=code%3D200'", "type: Pods", `kind: Deployment, name: "web"`, `averageValue: "10"`}},
		"object": {howto{metric: &inspect.Metric{Namespace: "shop", Resource: "deployments.apps", Name: "latency"}, expression: metric.Expression{Name: "latency", Stat: metric.P95}, stat: metric.P95, object: "web", value: 250, kind: "Deployment", apiVersion: "apps/v1", namespaced: true},
			[]string{"deployments.apps/web latency:p95", `describedObject: {apiVersion: "apps/v1", kind: "Deployment", name: "web"}`, `{type: Value, value: "250"}`}},
		"hostile": {howto{metric: &inspect.Metric{Namespace: "shop", Name: "a\u202e\"b'\n"}, expression: metric.Expression{Name: "a\u202e\"b'\n"}, stat: metric.Last, value: math.NaN()},
			[]string{`name: "a\u202e\"b'\n"`, `'\''`}},
	} {
		var all strings.Builder
		for _, snippet := range c.h.snippets("sluice get", "kubectl") {
			all.WriteString(snippet.Text + "\n")
		}
		if !containsAll(all.String(), c.wants) {
			t.Errorf("%s lacks one of %q:\n%s", name, c.wants, all.String())
		}
	}
	got := remedies([]string{"kubectl get pods", "Let Sluice answer: kubectl delete apiservice x", "Give the pods different labels"})
	if want := []remedy{{"", "kubectl get pods"}, {"Let Sluice answer:", "kubectl delete apiservice x"}, {"Give the pods different labels", ""}}; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("remedies are %q", got)
	}
}

// A page of series with long labels is short: many are held for readers that read slowly.
func TestLongLabels(t *testing.T) {
	f := &fakeSource{metrics: []inspect.Metric{{Namespace: "shop", Name: "latency", Kind: "gauge", Series: 500, LastSample: time.Now()}}}
	f.series = func(_, _, _ string, limit int) (all []inspect.Series) {
		for i := range min(limit, 500) {
			all = append(all, inspect.Series{Labels: map[string]string{"i": strconv.Itoa(i), "long": strings.Repeat("x", 60_000)}, Value: "1"})
		}
		return all
	}
	_, body := get(t, running(t, f), "/metric?namespace=shop&name=latency")
	if len(body) > 1<<20 || !strings.Contains(body, "... (600") {
		t.Errorf("%d bytes: %.2000s", len(body), body)
	}
}
