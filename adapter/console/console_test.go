package console

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// fakeSource is an inspect.Source of lists in memory.
type fakeSource struct {
	metrics     []inspect.Metric
	series      func(namespace, resource, name string, most int) []inspect.Series
	senders     []inspect.Sender
	groups      []inspect.PushedGroup
	rejections  []inspect.Rejection
	limits      []inspect.Limit
	autoscalers []inspect.Autoscaler
	rules       []inspect.Rule
	policies    []inspect.Policy
	agents      []inspect.Agent
	unknown     error // of policies
}

func (f *fakeSource) Agents(q inspect.Query) inspect.Page[inspect.Agent] {
	return inspect.Paged(q, f.agents, func(a *inspect.Agent) (string, string, inspect.Key) { return "", a.Node, a.Key() })
}

func (f *fakeSource) Metrics(q inspect.Query) inspect.Page[inspect.Metric] {
	some := slices.DeleteFunc(slices.Clone(f.metrics), func(m inspect.Metric) bool { return !strings.Contains(m.Name, q.Contains) })
	return inspect.Paged(q, some, func(m *inspect.Metric) (string, string, inspect.Key) {
		return m.Namespace, m.Name, inspect.Key{m.Namespace, m.Name, m.Resource}
	})
}

func (f *fakeSource) Series(namespace, resource, name string, limit int) []inspect.Series {
	if f.series == nil {
		return nil
	}
	all := f.series(namespace, resource, name, limit)
	return all[:min(len(all), limit)]
}

// Value is of the first series.
func (f *fakeSource) Value(namespace, resource, name string) (v float64, objects int) {
	all := f.Series(namespace, resource, name, 1)
	if len(all) == 0 {
		return 0, 0
	}
	v, _ = strconv.ParseFloat(all[0].Value, 64)
	return v, len(all)
}

func (f *fakeSource) UnknownPolicies() error                                 { return f.unknown }
func (f *fakeSource) Away() []string                                         { return nil }
func (f *fakeSource) Objects(inspect.Query) (p inspect.Page[inspect.Object]) { return p }
func (f *fakeSource) MetricSenders(string, string) []inspect.MetricSender    { return nil }
func (f *fakeSource) Windows() []string                                      { return []string{"10s", "1m"} }

func (f *fakeSource) Senders(q inspect.Query) inspect.Page[inspect.Sender] {
	return inspect.Paged(q, f.senders, func(s *inspect.Sender) (string, string, inspect.Key) {
		return s.Namespace, s.Name, s.Key()
	})
}

func (f *fakeSource) Groups(q inspect.Query) inspect.Page[inspect.PushedGroup] {
	return inspect.Paged(q, f.groups, func(g *inspect.PushedGroup) (string, string, inspect.Key) {
		return g.Namespace, g.Job, inspect.Key{g.Namespace, g.Job, g.Labels["instance"]}
	})
}

// Limits are in the order of the test.
func (f *fakeSource) Limits(q inspect.Query) (p inspect.Page[inspect.Limit]) {
	if !q.Fullest && q.Namespace == "" {
		panic("the page of limits begins with the fullest")
	}
	p.Items = f.limits[:min(q.Limit(), len(f.limits))]
	return p
}

func (f *fakeSource) Rejections(q inspect.Query) inspect.Page[inspect.Rejection] {
	return inspect.Paged(q, f.rejections, func(r *inspect.Rejection) (string, string, inspect.Key) {
		return r.Namespace, r.Metric, r.Key()
	})
}

func (f *fakeSource) Rules(q inspect.Query) inspect.Page[inspect.Rule] {
	return inspect.Paged(q, f.rules, func(r *inspect.Rule) (string, string, inspect.Key) {
		return r.Namespace, r.Name, inspect.Key{r.Namespace, r.Name}
	})
}

func (f *fakeSource) Targets(inspect.Query) (p inspect.Page[inspect.Target]) { return p }

func (f *fakeSource) Policies(q inspect.Query) inspect.Page[inspect.Policy] {
	return inspect.Paged(q, f.policies, func(p *inspect.Policy) (string, string, inspect.Key) {
		return p.Namespace, p.Name, inspect.Key{p.Namespace, p.Name}
	})
}

func (f *fakeSource) Autoscalers(q inspect.Query) inspect.Page[inspect.Autoscaler] {
	return inspect.Paged(q, f.autoscalers, func(a *inspect.Autoscaler) (string, string, inspect.Key) {
		return a.Namespace, a.Name, a.Key()
	})
}

// hostile are names and values that must never become markup, attributes or script.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `{{.}}`, "</textarea><script>alert(1)</script>",
	"javascript:alert(1)", "\u202egnp.exe", "a\u200bb", "مرحبا", strings.Repeat("x", 250),
}

// shop has an autoscaler that works, a broken one, and metrics with hostile names.
func shop() *fakeSource {
	now := time.Now()
	f := &fakeSource{autoscalers: []inspect.Autoscaler{
		{Namespace: "shop", Name: "api", TargetKind: "Deployment", TargetName: "api", MinReplicas: 1, MaxReplicas: 9, CurrentReplicas: 2, DesiredReplicas: 2,
			Metrics: []inspect.AutoscalerMetric{{Source: "Pods", Name: "http_requests", TargetType: "AverageValue", Target: "10", Asked: true, Value: "12", Values: 2, Pods: 2}}},
		{Namespace: "shop", Name: "web", TargetKind: "Deployment", TargetName: "web", MinReplicas: 1, MaxReplicas: 9, CurrentReplicas: 1, DesiredReplicas: 1,
			Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "queue_dept", TargetType: "AverageValue", Target: "5", Asked: true, Missing: true, Why: "none was ever received"}}},
	}}
	for _, name := range hostile {
		f.metrics = append(f.metrics, inspect.Metric{Namespace: "shop", Name: name, Kind: "counter", Series: 1, LastSample: now, ReadBy: []string{name}})
		f.rejections = append(f.rejections, inspect.Rejection{Namespace: "shop", Sender: name, Receiver: "statsd_udp", Reason: "identity", Metric: name,
			Message: name, Example: name, Count: 7, First: now, Last: now})
		f.limits = append(f.limits, inspect.Limit{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: name}, Metrics: 1, MaxMetrics: 5,
			Series: 3, MaxSeries: 100, Source: name, Holders: []inspect.Holder{{Metric: name, Series: 3}}})
		f.rules = append(f.rules, inspect.Rule{Namespace: "shop", Name: name, Metric: name, From: []string{name}, Expression: name, State: name, Message: name,
			Operands: []inspect.RuleOperand{{Name: name, Metric: name, Selector: name}}, Value: name, Of: inspect.Reference{Resource: name, Name: name}})
		f.policies = append(f.policies, inspect.Policy{Namespace: "shop", Name: name, Subjects: []string{name}, SubjectCount: 1,
			Rules: []inspect.PolicyRule{{Metric: name, Selector: name}}, State: inspect.PolicyFaulty, Faults: []string{name}})
		f.senders = append(f.senders, inspect.Sender{Namespace: "shop", Name: name, Sort: "pod", Series: 3, Rejected: 7, LastHeard: now, Metrics: []string{name}})
		f.groups = append(f.groups, inspect.PushedGroup{Namespace: "shop", Job: name, Labels: map[string]string{"instance": name}, Families: 1, Series: 2, LastPush: now})
		f.agents = append(f.agents, inspect.Agent{Node: name, Version: name, State: inspect.AgentConnected, Since: now, Samples: 12345, Rejected: 1, Reason: name, Message: name})
	}
	f.metrics = append(f.metrics, inspect.Metric{Namespace: "shop", Name: "queue_depth", Kind: "gauge", Series: 2, LastSample: now})
	f.series = func(_, _, name string, _ int) (all []inspect.Series) {
		for _, value := range hostile {
			all = append(all, inspect.Series{Object: inspect.Reference{Name: value}, Labels: map[string]string{"a": value, value: "b"}, Value: "12.5", LastSample: now})
		}
		return all
	}
	return f
}

// running is a console of a cluster with a source, on loopback.
func running(t *testing.T, source *fakeSource, change ...func(*Parts)) *Server {
	t.Helper()
	s := made(t, source, change...)
	run(t, s)
	return s
}

// made is a server that does not run yet, so a test may record in its history.
func made(t *testing.T, source *fakeSource, change ...func(*Parts)) *Server {
	t.Helper()
	parts := Parts{
		Source: source, Agents: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), PushUDP: "127.0.0.1:8125", PushHTTP: "http://127.0.0.1:9091", Get: "sluice get",
		Health: func() Health {
			return Health{Version: "1", Receivers: []Receiver{{Name: "statsd_udp", Received: 12345, Applied: 12300, Pending: 5, Datagrams: true,
				Rejected: []Count{{"identity", 30}, {"limit", 10}}}}, Checks: []Check{{"store", true, ""}}}
		},
		Try: func(lines []byte, sender string, _ func(string) bool) []Outcome {
			return []Outcome{{Line: string(lines), Reason: "applied", Why: "yes", Metric: string(lines), Kind: "counter", Value: string(lines), Of: string(lines),
				Labels: []metric.Label{{Key: string(lines), Value: string(lines)}}, Stats: []string{string(lines)}}}
		},
		Facts: func(a *inspect.Autoscaler) (*explain.Facts, []Use) {
			t := &explain.Facts{Autoscaler: *a, Pods: []inspect.TargetPod{{Name: "api-1", Phase: "Running", Ready: true}, {Name: hostile[0], Phase: "Running"}}, Readings: make([]explain.Reading, len(a.Metrics))}
			for i, m := range a.Metrics {
				t.Readings[i] = explain.Reading{Asked: true}
				if m.Missing {
					t.Readings[i].Code, t.Readings[i].Fault = 404, m.Why
				} else {
					t.Readings[i].Values = []explain.Value{{Object: "api-1", Milli: 12000, Text: "12", Time: time.Now()}}
				}
			}
			return t, nil
		},
		Begin: func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) {
			return func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) { return 12, true }
		},
	}
	for _, one := range change {
		one(&parts)
	}
	s, err := New(Config{Address: "127.0.0.1:0"}, parts)
	must(t, err)
	return s
}

// get is the answer to a request, and its body.
func get(t *testing.T, s *Server, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Addr().String()+path, nil)
	must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(body)
}

// allPages are addresses of all pages, with hostile values wherever one may be.
func allPages() (all []string) {
	for _, v := range hostile {
		q := url.QueryEscape(v)
		all = append(all, "/overview?filter="+q, "/metrics?filter="+q, "/metric?namespace=shop&name="+q, "/refused?namespace="+q, "/limits?namespace="+q, "/rules?namespace="+q, "/senders?namespace="+q, "/groups?namespace="+q,
			"/try?line="+q+"&sender="+q, "/autoscaler?namespace=shop&name="+q, "/metrics?namespace="+q)
	}
	return append(all, "/overview", "/metrics?sort=-value", "/metric?namespace=shop&name=queue_depth&stat=mean&window=10s&minutes=60&digits=all", "/metrics", "/refused", "/limits", "/rules", "/senders", "/groups", "/replicas", "/nodes", "/try", "/health", "/autoscaler?namespace=shop&name=api", "/autoscaler?namespace=shop&name=web", "/metrics?after=x")
}

// own are the fields with what the client typed itself.
var own = regexp.MustCompile(` value="[^"]*"|<textarea[^<]*</textarea>`)

func TestNothingHostileBecomesMarkup(t *testing.T) {
	s := running(t, shop())
	for _, path := range allPages() {
		resp, body := get(t, s, path)
		if resp.StatusCode >= 500 {
			t.Errorf("%s: %s", path, resp.Status)
		}
		if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", path, got)
		}
		body = own.ReplaceAllString(body, "")
		for _, bad := range []string{"<script>", "<img src=x", "' onmouseover='", `href="javascript:`, "\u202e", "\u200b", " style=", " onclick="} {
			if strings.Contains(body, bad) {
				at := strings.Index(body, bad)
				t.Errorf("%s contains %q: …%s…", path, bad, body[max(0, at-80):min(len(body), at+80)])
			}
		}
	}
}

func TestPages(t *testing.T) {
	s := running(t, shop())
	for path, wants := range map[string][]string{
		"/overview":                               {"1 of 2 autoscalers doesn", "queue_dept", "metric missing", ">12</b>", `data-live="/live/overview?"`},
		"/autoscaler?namespace=shop&name=api":     {"api-1", "Arithmetic", `data-plot="metric0"`, `data-target="10"`, `data-plot="replicas"`, "has not pushed it", "sluice explain", ">The metric<"},
		"/autoscaler?namespace=shop&name=web":     {"never-pushed", "queue_depth"},
		"/metrics":                                {"queue_depth", "shop"},
		"/metric?namespace=shop&name=queue_depth": {"A gauge with 2 series", `data-plot="series-`, "sluice get -n shop external queue_depth", "12.5", "kind: HorizontalPodAutoscaler", "<title>queue_depth · Metric · Sluice</title>"},
		"/refused":                                {"40 samples were rejected", "identity", "statsd_udp"},
		"/health":                                 {"12\u2009345", "0 datagrams dropped"},
		"/try?line=a:1|c":                         {"a:1|c", "applied"},
		"/metric?namespace=shop&name=nowhere":     {"there is no metric"},
		"/autoscaler?namespace=shop&name=none":    {"there is no autoscaler"},
	} {
		if _, body := get(t, s, path); true {
			for _, want := range wants {
				if !strings.Contains(body, want) {
					t.Errorf("%s lacks %q:\n%s", path, want, body)
				}
			}
		}
	}
	if _, body := get(t, s, "/overview"); strings.Index(body, "name=web") > strings.Index(body, "name=api") {
		t.Error("the broken autoscaler is not on top")
	}
}

// Nothing is shown, followed or recorded while nothing may be read, except what is about the process. A stream ends, and
// the page asks again.
func TestNothingIsShownWhileNothingMayBeRead(t *testing.T) {
	var ready atomic.Bool
	why := "the namespaces are not known yet"
	s := running(t, shop(), func(p *Parts) { p.Answers = func() (bool, string) { return ready.Load(), why } })
	for path, want := range map[string]int{
		"/overview": 503, "/metrics": 503, "/metric?namespace=shop&name=queue_depth": 503, "/groups": 503, "/try?line=a:1|c": 503,
		"/live/metrics": 503, "/live/groups": 503, "/health": 200, "/nodes": 200, "/replicas": 200,
	} {
		if resp, body := get(t, s, path); resp.StatusCode != want || want == 503 && !strings.Contains(body, why) {
			t.Errorf("%s: %s, want %d:\n%s", path, resp.Status, want, body)
		}
	}
	if n := s.history.round(time.Now()); n > 0 || s.history.size() > 0 {
		t.Errorf("%d subjects are recorded, %d rows", n, s.history.size())
	}
	ready.Store(true)
	if resp, body := get(t, s, "/metrics"); resp.StatusCode != 200 || !strings.Contains(body, "queue_depth") {
		t.Errorf("%s:\n%s", resp.Status, body)
	}
	resp, err := http.Get("http://" + s.Addr().String() + "/live/metrics")
	must(t, err)
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	first, err := events.ReadString('\n')
	must(t, err)
	ready.Store(false)
	rest, err := io.ReadAll(events)
	if must(t, err); first != "event: content\n" || strings.Contains(string(rest), "event: end") {
		t.Errorf("the stream has %s%s", first, rest)
	}
}

// Nodes have their agents, those that are cut off in words. Where no agents may report there is no link to the page.
func TestPageOfNodes(t *testing.T) {
	f := shop()
	f.agents = append(f.agents, inspect.Agent{Node: "node-7", State: inspect.AgentCutOff, Since: time.Now().Add(-5 * time.Minute), Lag: 0.104, LastFrame: time.Now()})
	s := running(t, f)
	if _, body := get(t, s, "/nodes"); !containsAll(body, []string{"1 of 11 agents is cut off", "node-7", `<span class="tag bad">cut off</span>`, "5m ago", "104ms", "12\u2009345", `href="/nodes" aria-current="page"`}) {
		t.Errorf("%s", body)
	}
	s = running(t, f, func(p *Parts) { p.Agents = false })
	if _, body := get(t, s, "/metrics"); strings.Contains(body, "/nodes") {
		t.Errorf("a link to a page of nothing:\n%s", body)
	}
	if _, body := get(t, s, "/nodes"); strings.Contains(body, "node-7") || !strings.Contains(body, "takes no agents") {
		t.Errorf("%s", body)
	}
}

// The page of an autoscaler whose metric is missing draws no axes, and links to metrics of the name that
// exist, not to one that doesn't. An address of a metric that is elsewhere says where.
func TestAMissingMetricHasNoPlotAndNoDeadLink(t *testing.T) {
	f := shop()
	f.metrics = append(f.metrics, inspect.Metric{Namespace: "billing", Name: "queue_dept", Resource: "pods", Kind: "gauge", Series: 1})
	s := running(t, f)
	_, body := get(t, s, "/autoscaler?namespace=shop&name=web")
	for _, want := range []string{"Nothing to plot", "none was ever received.</p>", `href="/metric?name=queue_dept&amp;namespace=billing&amp;of=pods">It is a metric of pods in namespace billing</a>`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q:\n%s", want, body)
		}
	}
	for _, bad := range []string{`data-plot="metric0"`, "namespace=shop&amp;of=&amp;name=queue_dept", ">The metric<"} {
		if strings.Contains(body, bad) {
			t.Errorf("%q:\n%s", bad, body)
		}
	}
	resp, body := get(t, s, "/metric?namespace=shop&name=queue_dept")
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "namespace=billing&amp;of=pods") {
		t.Errorf("%s:\n%s", resp.Status, body)
	}
}

// An autoscaler that is held back by a pod that was rejected, or is silent, stands with the broken ones.
func TestAnAutoscalerThatIsHeldBackIsBroken(t *testing.T) {
	f := shop()
	f.autoscalers[1].Metrics[0] = inspect.AutoscalerMetric{Source: "Pods", Name: "busy", TargetType: "AverageValue", Target: "5", Asked: true, Value: "4", Values: 2, Pods: 3,
		HeldBack: "web-2 was rejected"}
	s := running(t, f)
	_, body := get(t, s, "/overview")
	if !containsAll(body, []string{"1 of 2 autoscalers doesn", ">pods lack values<"}) || strings.Index(body, "name=web") > strings.Index(body, "name=api") {
		t.Errorf("%s", body)
	}
	if _, body := get(t, s, "/autoscaler?namespace=shop&name=web"); !containsAll(body, []string{">broken<", ">held back<"}) {
		t.Errorf("%s", body)
	}
}

// A pod whose value lacks series that a limit rejects is marked, and the page says which limit.
func TestAValueThatLacksSeriesIsMarked(t *testing.T) {
	f := shop()
	f.rejections = []inspect.Rejection{{Namespace: "shop", Sender: "api-1", Reason: "limit", Metric: "http_requests", Message: "the limit of pod api-1 is 2 series", Last: time.Now()}}
	f.limits = []inspect.Limit{{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "api-1"}, Series: 2, MaxSeries: 2, WantedSeries: 7, Source: "tight"}}
	s := running(t, f)
	if _, body := get(t, s, "/autoscaler?namespace=shop&name=api"); !containsAll(body, []string{"series-rejected", "the limit of pod api-1 is 2 series", ">incomplete<", "limitrange -n shop tight"}) {
		t.Error(body)
	}
	f.limits[0].WantedSeries = 0
	if _, body := get(t, s, "/autoscaler?namespace=shop&name=api"); containsAll(body, []string{">incomplete<"}) {
		t.Errorf("the limit was raised since:\n%s", body)
	}
}

// A metric that the controller doesn't get, though Sluice has it, is no matter of a former status while the
// controller's requests don't arrive.
func TestPageOfAnAutoscalerWhoseControllerIsNotHeard(t *testing.T) {
	f := shop()
	f.autoscalers[0].CurrentReplicas = 1
	f.autoscalers[0].Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetPodsMetric", Message: "no known versions"}}
	at := time.Now().Add(-2 * time.Second)
	s := running(t, f, func(p *Parts) {
		p.Facts = func(a *inspect.Autoscaler) (*explain.Facts, []Use) {
			return &explain.Facts{Autoscaler: *a, Pods: []inspect.TargetPod{{Name: "api-1", Phase: "Running", Ready: true}},
				Readings: []explain.Reading{{Asked: true, Values: []explain.Value{{Object: "api-1", Milli: 10_000, Text: "10"}}}}}, []Use{{At: at, Code: 200}}
		}
	})
	if _, body := get(t, s, "/autoscaler?namespace=shop&name=api"); !containsAll(body, []string{"the status is of a former moment", "= <b>1</b> replica<"}) {
		t.Errorf("a request has just arrived:\n%s", body)
	}
	at = time.Now().Add(-time.Minute)
	if _, body := get(t, s, "/autoscaler?namespace=shop&name=api"); !containsAll(body, []string{"io don&#39;t arrive here.", "not asked for it for 1m"}) ||
		strings.Contains(body, "former moment") {
		t.Errorf("no request arrives:\n%s", body)
	}
}

// The page of an autoscaler says what Sluice does at a push, and when it last did.
func TestThePageOfAnAutoscalerShowsNudges(t *testing.T) {
	f := shop()
	at := time.Now().Add(-8 * time.Second)
	f.autoscalers[0].Instant = &inspect.Instant{Annotation: "true", State: inspect.InstantWatching,
		Last: &inspect.Nudge{At: at, Because: `Pods metric "queue" is 50`, From: 1, Want: 5, Answered: at.Add(24 * time.Millisecond), Answer: 5}}
	_, body := get(t, running(t, f), "/autoscaler?namespace=shop&name=api")
	if !containsAll(body, []string{"a push that changes the replicas nudges the controller", "last nudged 8s ago, from 1 to 5, because", "it set 5 after 24ms"}) {
		t.Errorf("the page doesn't show the last nudge:\n%s", body)
	}
}

// The pages say what Sluice sees itself of the way from the autoscalers' controller, and which command
// knows the rest.
func TestPagesSayWhoAsked(t *testing.T) {
	use := Use{At: time.Now().Add(-3 * time.Minute), Code: 404}
	s := running(t, shop(), func(p *Parts) {
		facts := p.Facts
		p.Facts = func(a *inspect.Autoscaler) (*explain.Facts, []Use) {
			f, _ := facts(a)
			return f, []Use{use}
		}
		p.Groups = func() []GroupUse {
			return []GroupUse{{Group: "custom.metrics.k8s.io", Last: use, Succeeded: time.Now().Add(-time.Hour)}, {Group: "external.metrics.k8s.io"}}
		}
	})
	want := func(path string, parts ...string) {
		t.Helper()
		if _, body := get(t, s, path); !containsAll(body, parts) {
			t.Errorf("%s lacks one of %q:\n%s", path, parts, body)
		}
	}
	want("/health", "custom.metrics.k8s.io", ">3m ago</time>", ">404<", ">60m ago</time>", "external.metrics.k8s.io", ">never<", "sluice explain -n NAMESPACE hpa/NAME")
	want("/autoscaler?namespace=shop&name=api", ">3m ago</time>: <span class=\"tag warn\">404</span>")
	use = Use{}
	want("/autoscaler?namespace=shop&name=api", "controller has not asked this replica for it since the start; <code>sluice explain -n shop hpa/api</code>")
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// The page of limits says how near each is, who holds the slots, and what was refused; and that a
// namespace may be asked for alone.
func TestLimitsAreShown(t *testing.T) {
	f := &fakeSource{limits: []inspect.Limit{
		{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-1"}, Metrics: 4, MaxMetrics: 4, Series: 85, MaxSeries: 100, Rejected: 12345,
			WantedMetrics: 9, WantedSeries: 90, Source: "tight", Holders: []inspect.Holder{{Metric: "http_requests", Series: 80, Autoscaler: true}, {Metric: "mails", Series: 3}}},
		{Of: inspect.Reference{Resource: "namespaces", Name: "bank"}, Metrics: 10, MaxMetrics: 100, Series: 50, MaxSeries: 5000},
	}}
	full := func(p *Parts) {
		p.Health = func() Health {
			return Health{HeldSeries: 2_000_000, MaxSeries: 2_000_000, HeldBytes: 5 << 20, MaxBytes: 2 << 30}
		}
	}
	s := running(t, f, full)
	_, body := get(t, s, "/limits")
	for _, want := range []string{
		"1 limit is used up", "web-1", "<b>4</b> of 4", "<b>85</b> of 100", `class="rejected" width="100%"`, `class="pending" width="85.000%"`,
		`class="applied" width="10.000%"`, "http_requests", ">autoscaler<", "and 2 more", "12\u2009345", "wanted: 9 metrics", "tight", "namespace, without its pods",
		">default<", "2\u2009000\u2009000", "5.0 MiB", "2\u2009048 MiB", "max-series", `href="/refused?namespace=shop"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q:\n%s", want, body)
		}
	}
	if !containsAll(body, []string{"Series rejected are attempts", "Wanted is the number"}) {
		t.Error("what is in the rows isn't explained")
	}
	if strings.Contains(body, "wanted: 90 series") {
		t.Error("a number below the limit is wanted")
	}
	if _, body := get(t, s, "/limits?namespace=shop"); strings.Contains(body, "max-series") {
		t.Error("the bounds of the process are on the page of a namespace")
	}
	first := f.limits[0]
	f.limits[0].WantedMetrics, f.limits[0].Rejected = 0, 0
	if _, body := get(t, s, "/limits"); strings.Contains(body, "Series rejected are") || strings.Contains(body, "Wanted is") {
		t.Errorf("a note explains what isn't there:\n%s", body)
	}
	f.limits[0] = first
	for range pageSize + 5 {
		f.limits = append(f.limits, f.limits[1])
	}
	if _, body := get(t, s, "/limits"); strings.Count(body, `<th scope="row"`) != pageSize+2 || !strings.Contains(body, "sluice list limits -A") {
		t.Errorf("of many limits %d rows", strings.Count(body, `<th scope="row"`))
	}
	alone := running(t, &fakeSource{}, full, func(p *Parts) { p.Facts, p.Begin = nil, nil })
	if _, body := get(t, alone, "/limits"); !strings.Contains(body, "have no limits of their own") || !strings.Contains(body, "max-series") {
		t.Errorf("standalone:\n%s", body)
	}
}

// A rejected line is tried again as its sender, unless only its beginning is remembered.
func TestARejectedLineIsTriedAsItsSender(t *testing.T) {
	for _, c := range []struct {
		one  inspect.Rejection
		want string
	}{
		{inspect.Rejection{Namespace: "shop", Sender: "web-1", Example: "a:1|c"}, "/try?line=a%3A1%7Cc&sender=shop%2Fweb-1"},
		{inspect.Rejection{Sender: "10.0.0.7", Example: "a:1|c"}, "/try?line=a%3A1%7Cc&sender=10.0.0.7"},
		{inspect.Rejection{Sender: "10.0.0.7", Example: "a:1|c..."}, ""},
		{inspect.Rejection{Sender: "10.0.0.7", Example: "a:1|c|#token:***"}, ""},
		{inspect.Rejection{Sender: "10.0.0.7"}, ""},
	} {
		if got := tryAgain(&c.one); got != c.want {
			t.Errorf("%+v: %q, want %q", c.one, got, c.want)
		}
	}
	for sender, want := range map[string]string{"": "", "10.0.0.7": "", "shop/web-1": "shop", "system:serviceaccount:shop:robot": "shop", "jane": ""} {
		if got := namespaceOfSender(url.Values{"sender": {sender}}); got != want {
			t.Errorf("%q is of namespace %q, want %q", sender, got, want)
		}
	}
}

func TestEmptyPagesSayWhatToPush(t *testing.T) {
	s := running(t, &fakeSource{}, func(p *Parts) {
		p.Health = func() Health { return Health{} }
	})
	for path, want := range map[string]string{"/overview": "/dev/udp/127.0.0.1/8125", "/metrics": "/dev/udp/127.0.0.1/8125", "/refused": "Nothing was refused", "/rules": "docs/rules.md", "/try": "http_requests:1|c"} {
		if _, body := get(t, s, path); !strings.Contains(body, want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
	alone := running(t, &fakeSource{}, func(p *Parts) { p.Facts, p.Begin = nil, nil })
	if resp, _ := get(t, alone, "/"); resp.Header.Get("Location") != "/overview" {
		t.Errorf("standalone, the first page is %q", resp.Header.Get("Location"))
	}
}

func TestTheConsoleIsReadOnly(t *testing.T) {
	s := running(t, shop())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		req, _ := http.NewRequest(method, "http://"+s.Addr().String()+"/try", nil)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
}

func TestOtherNamesOfThisMachineAreRejected(t *testing.T) {
	s := running(t, shop())
	for host, want := range map[string]int{"evil.example": 403, "localhost.evil.example:9096": 403, "localhost:9096": 200, "127.0.0.1": 200, "[::1]:9096": 200, "": 403} {
		if resp, _ := get(t, s, "/metrics", "Host", host); host != "" && resp.StatusCode != want {
			t.Errorf("Host %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// Every one of 100,000 metrics is on exactly one page, and a page is small.
func TestManyMetrics(t *testing.T) {
	f := &fakeSource{}
	for i := range 100_000 {
		f.metrics = append(f.metrics, inspect.Metric{Namespace: fmt.Sprintf("ns%d", i%7), Name: fmt.Sprintf("m%06d", i), Kind: "gauge", Series: 1})
	}
	s := running(t, f)
	path, seen := "/metrics", map[string]bool{}
	for range 3 {
		_, body := get(t, s, path)
		if len(body) > 100<<10 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
		names := strings.Split(body, "name=m")[1:]
		if len(names) != metricsPerPage {
			t.Fatalf("%s: %d metrics", path, len(names))
		}
		for _, name := range names {
			if seen[name[:6]] {
				t.Errorf("%s is on two pages", name[:6])
			}
			seen[name[:6]] = true
		}
		_, rest, _ := strings.Cut(body, `href="/metrics?after=`)
		token, _, _ := strings.Cut(rest, `"`)
		path = "/metrics?after=" + token
	}
	if _, body := get(t, s, "/metrics?filter=m099999"); strings.Count(body, "name=m") != 1 {
		t.Error("a search does not find one of many metrics")
	}
}

func TestAssetsAreSmall(t *testing.T) {
	s, sum := running(t, shop()), 0
	for name := range assetTags() {
		content, _ := assetFiles.ReadFile("assets/" + name)
		sum += len(content)
		if resp, _ := get(t, s, "/assets/"+name); resp.StatusCode == 200 {
			again, _ := get(t, s, "/assets/"+name, "If-None-Match", resp.Header.Get("ETag"))
			if again.StatusCode != http.StatusNotModified {
				t.Errorf("%s: %s", name, again.Status)
			}
		}
	}
	if sum > 100<<10 {
		t.Errorf("the assets have %d bytes", sum)
	}
	if resp, _ := get(t, s, "/assets/SHA256SUMS"); resp.StatusCode != 404 {
		t.Errorf("a file that is no asset: %s", resp.Status)
	}
}

// Nothing stands between a page and its first paint but its style: it has its rows at once, its scripts wait for it, and
// no style loads another file.
func TestPagesArePaintedAtOnce(t *testing.T) {
	s := running(t, shop())
	scripts, styles := regexp.MustCompile(`<script[^>]*>`), regexp.MustCompile(`<link rel="stylesheet" href="/assets/(.*?)">`)
	for path, row := range map[string]string{
		"/overview": "<bdi>shop/web</bdi>", "/metrics": "<bdi>shop/queue_depth</bdi>", "/metric?namespace=shop&name=queue_depth": "<b data-row=",
		"/autoscaler?namespace=shop&name=api": "<bdi>api-1</bdi>", "/senders": `<th scope="row"`, "/groups": `<th scope="row"`, "/refused": "<tr>", "/limits": `<th scope="row"`,
	} {
		_, body := get(t, s, path)
		if !strings.Contains(body, row) {
			t.Errorf("%s has no %s:\n%s", path, row, body)
		}
		for _, script := range scripts.FindAllString(body, -1) {
			if !strings.Contains(script, " defer") {
				t.Errorf("%s waits for %s", path, script)
			}
		}
		for _, style := range styles.FindAllStringSubmatch(body, -1) {
			content, _ := assetFiles.ReadFile("assets/" + style[1])
			if len(content) == 0 || len(content) > 16<<10 || strings.Contains(string(content), "@import") || strings.Contains(string(content), "url(") {
				t.Errorf("%s waits for %s of %d bytes", path, style[1], len(content))
			}
		}
	}
}

func TestTemplatesParse(t *testing.T) {
	for _, p := range (&Server{}).pages() {
		if templates().Lookup(p.template) == nil {
			t.Errorf("no template %s", p.template)
		}
		if p.path != "autoscaler" && p.path != deletePath && !slices.ContainsFunc(navigation, func(l link) bool { return strings.HasPrefix(l.Path, p.path) }) {
			t.Errorf("no link leads to %s", p.path)
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
