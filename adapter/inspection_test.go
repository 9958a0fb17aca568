package adapter

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// catalog is an inspect.Source with the documents of a test.
type catalog struct {
	metrics     []inspect.Metric
	autoscalers []inspect.Autoscaler
	agents      []inspect.Agent
	labels      map[string]string // of each series
	unknown     error             // of policies
	away        []string          // replicas
	entered     chan struct{}     // if set, Metrics sends to it, and then receives from blocked
	blocked     chan struct{}
}

func (c *catalog) Metrics(q inspect.Query) inspect.Page[inspect.Metric] {
	if c.entered != nil {
		c.entered <- struct{}{}
		<-c.blocked
	}
	return inspect.Paged(q, c.metrics, func(m *inspect.Metric) (string, string, inspect.Key) {
		return m.Namespace, m.Name, inspect.Key{m.Namespace, m.Name, m.Resource}
	})
}

func (c *catalog) Series(namespace, resource, name string, limit int) (all []inspect.Series) {
	for i := range limit + 5 {
		if len(all) < limit {
			all = append(all, inspect.Series{Object: inspect.Reference{Resource: resource, Namespace: namespace, Name: fmt.Sprint("o", i)}, Value: "1.5", Labels: c.labels})
		}
	}
	return all
}

func (c *catalog) Value(string, string, string) (v float64, objects int) { return 0, 0 }

func (c *catalog) Objects(inspect.Query) inspect.Page[inspect.Object] {
	return inspect.Page[inspect.Object]{Items: []inspect.Object{{Reference: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-1"}, Series: 3}}}
}
func (c *catalog) MetricSenders(namespace, name string) []inspect.MetricSender {
	return []inspect.MetricSender{{Metric: namespace, Namespace: "shop", Name: "pusher-of-" + name, Sort: "pod"}}
}
func (c *catalog) Windows() []string                                            { return []string{"10s", "1m"} }
func (c *catalog) Senders(inspect.Query) (p inspect.Page[inspect.Sender])       { return p }
func (c *catalog) Rejections(inspect.Query) (p inspect.Page[inspect.Rejection]) { return p }
func (c *catalog) Groups(inspect.Query) (p inspect.Page[inspect.PushedGroup])   { return p }
func (c *catalog) Limits(inspect.Query) (p inspect.Page[inspect.Limit])         { return p }
func (c *catalog) Rules(inspect.Query) (p inspect.Page[inspect.Rule])           { return p }
func (c *catalog) Policies(inspect.Query) (p inspect.Page[inspect.Policy])      { return p }
func (c *catalog) Targets(inspect.Query) (p inspect.Page[inspect.Target])       { return p }
func (c *catalog) Agents(q inspect.Query) inspect.Page[inspect.Agent] {
	return inspect.Paged(q, c.agents, func(a *inspect.Agent) (string, string, inspect.Key) { return "", a.Node, a.Key() })
}
func (c *catalog) UnknownPolicies() error { return c.unknown }
func (c *catalog) Away() []string         { return c.away }
func (c *catalog) Autoscalers(q inspect.Query) inspect.Page[inspect.Autoscaler] {
	return inspect.Paged(q, c.autoscalers, func(a *inspect.Autoscaler) (string, string, inspect.Key) { return a.Namespace, a.Name, a.Key() })
}

const inspectPath = "/apis/inspect.sluice.dev/v1alpha1"

// inspected runs a server with the lists.
func inspected(t *testing.T, c *catalog, options ...func(*Config)) *api {
	t.Helper()
	cfg := configured(options)
	server, err := New(cfg, Parts{Source: shop(), Inspect: c, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	a := running(t, server)
	a.waitReady(t)
	return a
}

func manyMetrics(n int) *catalog {
	c := &catalog{}
	for i := range n {
		c.metrics = append(c.metrics, inspect.Metric{Namespace: fmt.Sprintf("ns%d", i%2), Name: fmt.Sprintf("m%04d", i), Resource: "pods",
			Kind: "counter", Objects: 1, Series: 2, LastSample: time.Unix(1, 0).UTC()})
	}
	return c
}

// A page whose documents are long has fewer of them, in every form, and none is left out.
func TestLongPagesAreShort(t *testing.T) {
	const long = maxPage / 3
	c := manyMetrics(10)
	for i := range c.metrics {
		c.metrics[i].Kind = strings.Repeat("<", long)
	}
	a := inspected(t, c)
	for accept, path := range map[string]string{"": "?", "application/json;as=Table;v=v1;g=meta.k8s.io": "?includeObject=Object&"} {
		items, next := 0, ""
		for pages := 1; ; pages++ {
			_, body := a.get(t, inspectPath+"/metrics"+path+"limit=1000&continue="+url.QueryEscape(next), accept)
			if len(body) > maxPage+3*long {
				t.Fatalf("%q: a page has %d bytes", accept, len(body))
			}
			var page struct {
				Metadata    inspect.ListMeta
				Items, Rows []json.RawMessage
			}
			must(t, json.Unmarshal(body, &page))
			items += len(page.Items) + len(page.Rows)
			if next = page.Metadata.Continue; next == "" {
				if items != len(c.metrics) || pages < 3 {
					t.Errorf("%q: %d of %d in %d pages", accept, items, len(c.metrics), pages)
				}
				break
			}
		}
	}
}

// The labels of a metric's series are bounded where it is described.
func TestLongLabelsOfAMetric(t *testing.T) {
	c := &catalog{metrics: []inspect.Metric{{Namespace: "shop", Name: "a", Resource: "pods"}, {Namespace: "shop", Name: "a"}},
		labels: map[string]string{"a": strings.Repeat("\x01", 60<<10)}}
	a := inspected(t, c)
	_, body := a.get(t, inspectPath+"/namespaces/shop/metrics/a", "")
	var d inspect.MetricDetail
	if err := json.Unmarshal(body, &d); err != nil || len(d.Series) == 0 || len(body) > 7*maxDetailLabels {
		t.Errorf("%d bytes with %d series: %v", len(body), len(d.Series), err)
	}
}

type metricPage struct {
	Kind, APIVersion string
	Metadata         inspect.ListMeta
	Items            []struct {
		Metadata inspect.Meta
		inspect.Metric
	}
}

func TestListsComeInPages(t *testing.T) {
	a := inspected(t, manyMetrics(1203))
	for path, want := range map[string]int{"/metrics": 1203, "/namespaces/ns1/metrics": 601, "/namespaces/none/metrics": 0} {
		n, last := 0, ""
		for token, pages := "", 0; ; pages++ {
			resp, body := a.get(t, inspectPath+path+"?limit=100&continue="+token, "")
			var page metricPage
			if err := json.Unmarshal(body, &page); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %v\n%s", path, resp.Status, err, body)
			}
			if page.Kind != "MetricList" || page.APIVersion != "inspect.sluice.dev/v1alpha1" || len(page.Items) > 100 || pages > 20 {
				t.Fatalf("%s: %s %s with %d items", path, page.Kind, page.APIVersion, len(page.Items))
			}
			for _, one := range page.Items {
				if one.Metadata.Name != one.Name || one.Metadata.Namespace != one.Namespace || one.Namespace+one.Name <= last {
					t.Fatalf("%+v after %s", one, last)
				}
				last = one.Namespace + one.Name
				n++
			}
			if token = page.Metadata.Continue; token == "" {
				break
			}
		}
		if n != want {
			t.Errorf("%s: %d metrics, want %d", path, n, want)
		}
	}
	_, body := a.get(t, inspectPath+"/metrics", "")
	var page metricPage
	if err := json.Unmarshal(body, &page); err != nil || len(page.Items) != inspect.DefaultMost {
		t.Errorf("%d items without a limit, want %d (%v)", len(page.Items), inspect.DefaultMost, err)
	}
}

// Agents belong to no namespace: discovery says so, and there is no list of those of one.
func TestAgentsAreOfTheCluster(t *testing.T) {
	c := &catalog{agents: []inspect.Agent{{Node: "a", State: inspect.AgentConnected}, {Node: "b", State: inspect.AgentCutOff}}}
	a := inspected(t, c)
	for path, code := range map[string]int{"/agents?limit=1": 200, "/namespaces/shop/agents": 404} {
		resp, body := a.get(t, inspectPath+path, "")
		if resp.StatusCode != code || code == 200 && !strings.Contains(string(body), `"kind":"AgentList"`) {
			t.Errorf("%s: %s\n%s", path, resp.Status, body)
		}
	}
	_, body := a.get(t, inspectPath, "")
	var found metav1.APIResourceList
	must(t, json.Unmarshal(body, &found))
	for _, resource := range found.APIResources {
		if resource.Namespaced == (resource.Name == "agents") {
			t.Errorf("%+v", resource)
		}
	}
}

// Answers name the replicas that are away in the headers that kubectl prints.
func TestAnswersWarnOfReplicasThatAreAway(t *testing.T) {
	c := &catalog{metrics: []inspect.Metric{{Namespace: "shop", Name: "hits"}}, away: []string{"replica b \"is\" away", "so is c"}}
	a := inspected(t, c)
	for path, code := range map[string]int{"/namespaces/shop/metrics": 200, "/metrics/hits": 200, "/metrics/none": 404} {
		res, _ := a.get(t, inspectPath+path, "")
		if got := res.Header["Warning"]; res.StatusCode != code || len(got) != 2 || got[0] != `299 - "replica b \"is\" away"` || got[1] != `299 - "so is c"` {
			t.Errorf("%s: %d, %q", path, res.StatusCode, got)
		}
	}
}

func TestInvalidListsAreStatuses(t *testing.T) {
	a := inspected(t, manyMetrics(3))
	foreign := inspect.Key{"ns0", "x"}.Token("objects")
	for path, want := range map[string]int{
		"/metrics?limit=x":                            400,
		"/metrics?limit=-1":                           400,
		"/metrics?continue=x":                         400,
		"/metrics?continue=" + foreign:                400,
		"/metrics?continue=" + strings.Repeat("A", 9): 400,
		"/metrics?labelSelector=a%3Db":                400,
		"/metrics?fieldSelector=metadata.name%3Da":    400,
		"/metrics?watch=true":                         400,
		"/namespaces/ns0/metrics/none":                404,
		"/namespaces/ns0/metrics/m0000/status":        404,
		"/namespaces/ns0/objects/web-1":               404,
		"/namespaces/ns0/nothing":                     404,
		"/autoscalers/none":                           404,
	} {
		resp, body := a.get(t, inspectPath+path, "")
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d\n%s", path, resp.Status, want, body)
			continue
		}
		if s := status(t, body); s.Message == "" {
			t.Errorf("%s: no message", path)
		}
	}
	if resp, body := a.get(t, inspectPath+"/metrics", "application/vnd.kubernetes.protobuf"); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("protobuf: %s %s", resp.Status, body)
	}
	if resp, _ := a.do(t, http.MethodDelete, inspectPath+"/metrics", ""); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %s", resp.Status)
	}
}

func TestOneMetricIsDescribed(t *testing.T) {
	c := &catalog{metrics: []inspect.Metric{{Namespace: "shop", Name: "a/b", Resource: "pods"}, {Namespace: "shop", Name: "a/b"}, {Namespace: "bank", Name: "a/b"}}}
	a := inspected(t, c)
	for path, want := range map[string]int{"/namespaces/shop/metrics/a%5C%7Cb": 2, `/metrics/a\|b`: 3} {
		_, body := a.get(t, inspectPath+path, "")
		var d struct {
			Kind     string
			Metadata inspect.Meta
			inspect.MetricDetail
		}
		if err := json.Unmarshal(body, &d); err != nil || d.Kind != "MetricDetail" || len(d.Metrics) != want || len(d.Series) != want*inspect.DetailSeries ||
			len(d.Senders) != 1 || !strings.HasPrefix(d.Senders[0].Name, "pusher-of-") || len(d.Windows) != 2 {
			t.Errorf("%s: %s with %d metrics and %d series, want %d metrics (%v)\n%.300s", path, d.Kind, len(d.Metrics), len(d.Series), want, err, body)
		}
	}
}

func TestOneAutoscalerIsDescribed(t *testing.T) {
	a := inspected(t, &catalog{autoscalers: []inspect.Autoscaler{{Namespace: "shop", Name: "web", TargetName: "w"}, {Namespace: "bank", Name: "web"}}})
	_, body := a.get(t, inspectPath+"/namespaces/shop/autoscalers/web", "")
	var one struct {
		Kind, APIVersion string
		inspect.Autoscaler
	}
	if err := json.Unmarshal(body, &one); err != nil || one.Kind != "Autoscaler" || one.APIVersion == "" || one.TargetName != "w" {
		t.Errorf("%v %s", err, body)
	}
	if resp, _ := a.get(t, inspectPath+"/autoscalers/web", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("of two namespaces: %s", resp.Status)
	}
}

func TestListsAreTablesForKubectl(t *testing.T) {
	a := inspected(t, manyMetrics(2))
	const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	for path, rows := range map[string]int{"/metrics": 2, "/namespaces/ns1/metrics/m0001": 1} {
		_, body := a.get(t, inspectPath+path, asTable)
		var table metav1.Table
		if err := json.Unmarshal(body, &table); err != nil || table.Kind != "Table" || len(table.Rows) != rows {
			t.Fatalf("%s: %v\n%s", path, err, body)
		}
		for _, row := range table.Rows {
			if len(row.Cells) != len(table.ColumnDefinitions) || !strings.Contains(string(row.Object.Raw), `"PartialObjectMetadata"`) {
				t.Errorf("%s: %v %s", path, row.Cells, row.Object.Raw)
			}
		}
	}
	_, body := a.get(t, inspectPath+"/metrics?includeObject=Object", asTable)
	if !strings.Contains(string(body), `"kind":"Metric"`) {
		t.Errorf("with whole objects:\n%s", body)
	}
}

func TestListsAreDiscovered(t *testing.T) {
	a := inspected(t, manyMetrics(1))
	for path, accept := range map[string]string{inspectPath: "", "/apis": "", "/apis?": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"} {
		if _, body := a.get(t, path, accept); !strings.Contains(string(body), "inspect.sluice.dev") {
			t.Errorf("%s: %s", path, body)
		}
	}
	_, body := a.get(t, "/openapi/v3"+inspectPath, "")
	for _, want := range []string{`"dev.sluice.inspect.v1alpha1.MetricList"`, `"/apis/inspect.sluice.dev/v1alpha1/namespaces/{namespace}/rejections"`, `"lastSample"`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the OpenAPI document lacks %s:\n%.500s", want, body)
		}
	}
	for _, resource := range inspect.Resources {
		if resp, body := a.get(t, inspectPath+"/"+resource.Name, ""); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"kind":"`+resource.Kind+`List"`) {
			t.Errorf("%s: %s %s", resource.Name, resp.Status, body)
		}
	}
	without := start(t, shop())
	if resp, _ := without.get(t, inspectPath, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without a source: %s", resp.Status)
	}
}

// No more than maxScans pages are made at once.
func TestListsAtOnceAreBounded(t *testing.T) {
	const lists = 4 * maxScans
	c := manyMetrics(1)
	c.entered, c.blocked = make(chan struct{}, lists), make(chan struct{})
	a := inspected(t, c, func(cfg *Config) { cfg.RequestTimeout = time.Hour })
	var asking sync.WaitGroup
	for range lists {
		asking.Go(func() {
			if code, _, _, err := a.askFor(t.Context(), inspectPath+"/metrics", "application/json"); code != http.StatusOK {
				t.Error(code, err)
			}
		})
	}
	eventually(t, "all are in flight", func() bool { return testutil.ToFloat64(a.metrics.inFlight) == lists })
	for range maxScans {
		<-c.entered
	}
	if n := len(c.entered); n > 0 {
		t.Errorf("%d pages beyond the limit are made", n)
	}
	close(c.blocked)
	asking.Wait()
}

// The next ones wait for a while, and are told to retry.
func TestListsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInspection(nil, nil, time.Second)
		var ends []func()
		for range maxScans {
			end, err := n.begin(t.Context())
			must(t, err)
			ends = append(ends, end)
		}
		if _, err := n.begin(t.Context()); !apierrors.IsTooManyRequests(err) {
			t.Errorf("beyond the limit: %v", err)
		}
		time.AfterFunc(900*time.Millisecond, ends[0])
		if _, err := n.begin(t.Context()); err != nil {
			t.Errorf("a place was free in time: %v", err)
		}
	})

}

// However many lists one reader asks for at once, that of another one is next.
func TestListsHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInspection(nil, nil, time.Minute)
		begun := map[string]chan func(){"crowd": make(chan func(), 8*maxScans), "alice": make(chan func(), 1)}
		ask := func(reader string) {
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: reader})
			go func() {
				end, err := n.begin(ctx)
				if err != nil {
					t.Error(err)
				}
				begun[reader] <- end
			}()
			synctest.Wait()
		}
		for range 8 * maxScans {
			ask("crowd")
		}
		ask("alice")
		for range 2 { // the first one that waited, and alice
			(<-begun["crowd"])()
			synctest.Wait()
		}
		if len(begun["alice"]) != 1 {
			t.Error("a list waits for all of those that another reader asked for before")
		}
		for range 8*maxScans - 2 {
			select {
			case end := <-begun["alice"]:
				end()
			default:
			}
			(<-begun["crowd"])()
			synctest.Wait()
		}
	})
}
