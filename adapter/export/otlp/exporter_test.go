package otlp

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// table is a Source with a family for each list of series. It is on disk.
type table map[metric.Family][]metric.LiveSeries

func (t table) Persist(context.Context) error { return nil }

func (t table) Persisting() error { return nil }

// onDisk is a table on a disk.
type onDisk struct {
	table
	persist    func() error
	persisting error
}

func (d onDisk) Persist(context.Context) error { return d.persist() }

func (d onDisk) Persisting() error { return d.persisting }

func (t table) Families(match func(*metric.Family) bool) (all []metric.Family) {
	for f := range t {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b metric.Family) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (t table) Reader() export.Reader { return t }

func (t table) Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool) {
	for _, s := range t[*f] {
		if !yield(&s) {
			return
		}
	}
}

// collector is a Collector that answers with some statuses first, then with 200.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	points   []string
	starts   []string // of totals
	requests int
}

func newCollector(t *testing.T, statuses ...int) *collector {
	c := &collector{statuses: statuses}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		if len(c.statuses) > 0 {
			w.WriteHeader(c.statuses[0])
			c.statuses = c.statuses[1:]
			return
		}
		zip, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.URL.Path != "/v1/metrics" {
			t.Errorf("%v %v %v", err, r.Header, r.URL)
			return
		}
		body, err := io.ReadAll(zip)
		request := pmetricotlp.NewExportRequest()
		if err == nil {
			err = request.UnmarshalProto(body)
		}
		if err != nil {
			t.Error(err)
		}
		for _, scope := range request.Metrics().ResourceMetrics().At(0).ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				c.points = append(c.points, describe(m)...)
				c.starts = append(c.starts, starts(m)...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func describe(m pmetric.Metric) (all []string) {
	number := func(kind string, points pmetric.NumberDataPointSlice) {
		for _, p := range points.All() {
			all = append(all, fmt.Sprint(kind, " ", m.Name(), attributes(p.Attributes()), " ", p.IntValue(), " ", p.DoubleValue()))
		}
	}
	switch m.Type() {
	case pmetric.MetricTypeSum:
		number(fmt.Sprint(m.Sum().AggregationTemporality(), " ", m.Sum().IsMonotonic()), m.Sum().DataPoints())
	case pmetric.MetricTypeGauge:
		number("gauge", m.Gauge().DataPoints())
	case pmetric.MetricTypeSummary:
		for _, p := range m.Summary().DataPoints().All() {
			text := fmt.Sprint("summary ", m.Name(), attributes(p.Attributes()), " ", p.Count(), " ", p.Sum())
			for _, q := range p.QuantileValues().All() {
				text += fmt.Sprint(" ", q.Quantile(), "=", q.Value())
			}
			all = append(all, text)
		}
	}
	return all
}

func starts(m pmetric.Metric) (all []string) {
	switch m.Type() {
	case pmetric.MetricTypeSum:
		for _, p := range m.Sum().DataPoints().All() {
			all = append(all, fmt.Sprint(m.Name(), " ", m.Sum().IsMonotonic(), " ", uint64(p.StartTimestamp())))
		}
	case pmetric.MetricTypeSummary:
		for _, p := range m.Summary().DataPoints().All() {
			all = append(all, fmt.Sprint(m.Name(), " ", uint64(p.StartTimestamp())))
		}
	}
	return all
}

func attributes(m pcommon.Map) string {
	var all []string
	for key, value := range m.All() {
		all = append(all, key+"="+value.Str())
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

func exporter(url string, source export.Source) *Exporter {
	c := Config{URL: url + "/v1/metrics", Interval: time.Second}
	return mustNew(c, source)
}

func mustNew(c Config, source export.Source) *Exporter {
	e, err := New(c, source, func() bool { return true }, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	return e
}

func families() table {
	pod := metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}
	of := func(resource, namespace, name string, k metric.Kind) metric.Family {
		return metric.Family{Resource: resource, Namespace: namespace, Name: name, Kinds: metric.KindSetOf(k)}
	}
	labels := metric.NewLabels([]metric.Label{{Key: "code", Value: "200"}, {Key: "k8s.pod.name", Value: "another"}})
	return table{
		of("pods", "shop", "a.hits", metric.Counter):      {{Object: pod, Labels: labels, Value: metric.Int(3)}},
		of("", "", "b.depth", metric.Gauge):               {{Value: metric.Float(0.5)}},
		of("widgets.x.io", "shop", "c.users", metric.Set): {{Object: metric.Object{Resource: "widgets.x.io", Namespace: "shop", Name: "w"}, Value: metric.Int(7)}},
		of("deployments.apps", "shop", "d.lat", metric.Timer): {{
			Object:  metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web"},
			Summary: metric.Summary{Count: 2, Sum: 30, Quantiles: []metric.Quantile{{Q: 0.5, Value: 12}, {Q: 0.9, Value: math.NaN()}}},
		}},
	}
}

func TestSeriesReachTheCollector(t *testing.T) {
	c := newCollector(t)
	e := exporter(c.URL, families())
	e.export(t.Context())
	want := []string{
		"Cumulative true a.hits{code=200,k8s.namespace.name=shop,k8s.pod.name=web-1} 3 0",
		"gauge b.depth{} 0 0.5",
		"gauge c.users{k8s.namespace.name=shop,k8s.object.name=w,k8s.object.resource=widgets.x.io} 7 0",
		"summary d.lat{k8s.deployment.name=web,k8s.namespace.name=shop} 2 30 0.5=12",
	}
	if !slices.Equal(c.points, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(c.points, "\n"), strings.Join(want, "\n"))
	}
	if e.sent.Load() != 4 || e.lost.Load() != 0 {
		t.Errorf("%d sent, %d lost", e.sent.Load(), e.lost.Load())
	}
}

// Totals are sent once they are on disk, and left out while nothing is persisted.
func TestTotalsWaitForTheDisk(t *testing.T) {
	full := errors.New("the disk is full")
	for name, c := range map[string]struct {
		persist, persisting error
		points, lost        int
	}{
		"on disk": {nil, nil, 4, 0},
		"fails":   {full, nil, 0, 4},
		"full":    {full, full, 2, 0},
	} {
		server := newCollector(t)
		persists := func() error {
			if server.requests > 0 {
				t.Errorf("%s: sent before it was on disk", name)
			}
			return c.persist
		}
		e := exporter(server.URL, onDisk{families(), persists, c.persisting})
		e.export(t.Context())
		if len(server.points) != c.points || int(e.lost.Load()) != c.lost {
			t.Errorf("%s: %q, %d lost", name, server.points, e.lost.Load())
		}
	}
}

// A total says since when it counts. Once a series of a metric has fallen, the metric isn't monotonic.
func TestStartsAndFalls(t *testing.T) {
	c := newCollector(t)
	start := time.Unix(1_700_000_000, 5)
	counters, timers := metric.KindSetOf(metric.Counter), metric.KindSetOf(metric.Timer)
	source := table{
		{Name: "a", Kinds: counters}:                    {{Value: metric.Int(1), Start: start}},
		{Name: "b", Namespace: "bank", Kinds: counters}: {{Value: metric.Int(2), Start: start}},
		{Name: "b", Namespace: "shop", Kinds: counters}: {{Value: metric.Int(3), Start: start.Add(time.Second), Fell: true}},
		{Name: "c", Kinds: timers}:                      {{Start: start}},
	}
	e := exporter(c.URL, source)
	e.export(t.Context())
	want := []string{"a true 1700000000000000005", "b false 1700000000000000005", "b false 1700000001000000005", "c 1700000000000000005"}
	slices.Sort(c.starts)
	if !slices.Equal(c.starts, want) {
		t.Errorf("%q, want %q", c.starts, want)
	}
	source[metric.Family{Name: "b", Namespace: "shop", Kinds: counters}] = nil
	c.starts = nil
	e.export(t.Context()) // a metric stays what it is
	slices.Sort(c.starts)
	if want = slices.Delete(want, 2, 3); !slices.Equal(c.starts, want) {
		t.Errorf("%q, want %q", c.starts, want)
	}
}

func TestManySeriesAreManyRequests(t *testing.T) {
	f := metric.Family{Name: "m", Kinds: metric.KindSetOf(metric.Gauge)}
	many := table{f: nil}
	for i := range 2*pointsAtOnce + 1 {
		many[f] = append(many[f], metric.LiveSeries{Value: metric.Int(int64(i))})
	}
	c := newCollector(t)
	exporter(c.URL, many).export(t.Context())
	if c.requests != 3 || len(c.points) != 2*pointsAtOnce+1 {
		t.Errorf("%d requests, %d points", c.requests, len(c.points))
	}
}

func TestFailuresOfACollector(t *testing.T) {
	for name, c := range map[string]struct {
		statuses       []int
		sent, requests int
	}{
		"busy once":   {[]int{503}, 4, 2},
		"refuses":     {[]int{400, 400}, 0, 1},
		"redirects":   {[]int{302}, 0, 1},
		"always busy": {[]int{429, 503, 504, 503}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newCollector(t, c.statuses...)
			e := exporter(server.URL, families())
			e.export(t.Context())
			if int(e.sent.Load()) != c.sent || int(e.lost.Load()) != 4-c.sent || server.requests != c.requests {
				t.Errorf("%d sent, %d lost, %d requests", e.sent.Load(), e.lost.Load(), server.requests)
			}
		})
	}
}

// An export that the Collector does not take ends: the next one has newer values.
func TestACollectorThatIsAwayCostsOneRequest(t *testing.T) {
	f := metric.Family{Name: "m", Kinds: metric.KindSetOf(metric.Gauge)}
	many := table{f: make([]metric.LiveSeries, 5*pointsAtOnce)}
	server := newCollector(t, 503, 503, 503)
	e := exporter(server.URL, many)
	e.export(t.Context())
	if server.requests != tries || e.lost.Load() != 5*pointsAtOnce {
		t.Errorf("%d requests, %d series lost", server.requests, e.lost.Load())
	}
	e.export(t.Context())
	if e.sent.Load() != 5*pointsAtOnce || e.lost.Load() != 5*pointsAtOnce {
		t.Errorf("once it is back, %d series are sent, and %d lost", e.sent.Load(), e.lost.Load())
	}
}

// The log names the host of a Collector that cannot be reached, and no token of its URL.
func TestTokensOfURLsAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		e := exporter("http://u:hunter2@collector:4318/hunter2/v1/metrics?key=hunter2", families())
		e.log = slog.New(slog.NewTextHandler(&log, nil))
		e.access.client = &http.Client{Transport: unreachable{}}
		e.export(t.Context())
		if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "host=collector:4318 error=unreachable") {
			t.Error(text)
		}
	})
}

type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("unreachable")
}

// A Collector that answers nothing holds the export, and nothing else: it ends with its context.
func TestADeadCollector(t *testing.T) {
	hangs, asked := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-hangs }))
	defer server.Close()
	defer close(hangs)
	e := exporter(server.URL, families())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(ctx) }()
	<-asked
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("Run goes on")
	}
}

func TestConfig(t *testing.T) {
	for url, valid := range map[string]bool{
		"": true, "http://c:4318/v1/metrics": true, "https://c/x": true, "c:4318": false, "ftp://c/": false, "http://": false, "http://a:b@c/": false,
	} {
		if err := (Config{URL: url, Interval: time.Second}).Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", url, err)
		}
	}
	if (Config{Interval: time.Millisecond}).Validate() == nil {
		t.Error("an interval of a millisecond is valid")
	}
}
