package adapter

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/adapter/route"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// otherProvider is another product's server of external metrics. It has every metric, and lists two.
type otherProvider struct {
	*httptest.Server
	caFile string
	asked  atomic.Int32 // questions, without discovery
	more   atomic.Int32 // bytes of a label
}

func newOtherProvider(t testing.TB) *otherProvider {
	t.Helper()
	p := &otherProvider{caFile: filepath.Join(t.TempDir(), "ca.crt")}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/external.metrics.k8s.io/v1beta1" {
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"datadogmetric@shop:a"},{"name":"orders_waiting"}]}`))
			return
		}
		p.asked.Add(1)
		_, _ = w.Write([]byte(`{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[` +
			`{"metricName":"theirs","metricLabels":{"queue":"mail","more":"` + strings.Repeat("x", int(p.more.Load())) +
			`"},"timestamp":"2026-03-14T12:00:00Z","value":"42500m"}]}`))
	}))
	t.Cleanup(p.Close)
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	must(t, os.WriteFile(p.caFile, content, 0o600))
	return p
}

// routesTo runs a router with the providers until the test ends.
func routesTo(t testing.TB, specs ...route.Spec) *route.Router {
	t.Helper()
	cfg := route.DefaultConfig(64, 1000)
	cfg.Poll, cfg.Timeout = 5*time.Millisecond, time.Minute
	r, err := route.New(cfg, specs, &rest.Config{BearerToken: "ours"}, slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (p *otherProvider) spec() route.Spec {
	return route.Spec{Name: "other", URL: p.URL, CAFile: p.caFile, ScaledObjects: true, Metrics: []string{"datadogmetric@*"}}
}

const (
	datadogPath = externalRoot + "namespaces/shop/datadogmetric@shop:a"
	scaledPath  = externalRoot + "namespaces/shop/orders_waiting?labelSelector=scaledobject.keda.sh%2Fname%3Dweb"
)

// What another provider has is answered by it, in every encoding; the rest is as without it, also while it is away.
func TestRoutes(t *testing.T) {
	p := newOtherProvider(t)
	a := running(t, prepared(t, Parts{Routes: routesTo(t, p.spec())}, anonymousAccess()))
	a.waitReady(t)
	for _, path := range []string{datadogPath, scaledPath} {
		resp, body := a.get(t, path, "application/json")
		var list v1beta1.ExternalMetricValueList
		if err := json.Unmarshal(body, &list); err != nil || resp.StatusCode != 200 || len(list.Items) != 1 ||
			list.Items[0].Value.String() != "42500m" || list.Items[0].MetricLabels["queue"] != "mail" {
			t.Errorf("%s: %v %d %s", path, err, resp.StatusCode, body)
		}
		if resp, body = a.get(t, path, "application/vnd.kubernetes.protobuf"); resp.StatusCode != 200 || !strings.Contains(string(body), "42500m") {
			t.Errorf("%s in protobuf: %d %q", path, resp.StatusCode, body)
		}
	}
	own := func() {
		t.Helper()
		if resp, body := a.get(t, ordersPath, ""); resp.StatusCode != 200 || strings.Contains(string(body), "42500m") {
			t.Errorf("Sluice's own metric: %d %s", resp.StatusCode, body)
		}
	}
	own()
	union := []string{`jobs\|done`, "orders_waiting", "datadogmetric@shop:a"}
	eventually(t, "discovery is the union", func() bool {
		return slices.Equal(a.names(t, "external.metrics.k8s.io/v1beta1"), union)
	})
	if got := a.aggregatedNames(t)["external.metrics.k8s.io/v1beta1"]; !slices.Equal(got, union) {
		t.Errorf("aggregated discovery lists %v", got)
	}
	p.Close()
	for _, path := range []string{datadogPath, scaledPath} {
		resp, body := a.get(t, path, "")
		if s := status(t, body); resp.StatusCode != 503 || !strings.Contains(s.Message, "is routed to the provider other, which cannot be reached at "+p.URL) {
			t.Errorf("away: %d %s", resp.StatusCode, s.Message)
		}
	}
	own()
}

// Answers of another provider that their clients don't read take room until the clients leave.
func TestSlowReadersOfRoutedAnswers(t *testing.T) {
	p := newOtherProvider(t)
	a := running(t, prepared(t, Parts{Routes: routesTo(t, p.spec())}, anonymousAccess()))
	a.waitReady(t)
	p.more.Store(7 << 20) // more than a client of HTTP/2 takes before it is read
	patient := *a.client
	patient.Timeout = 0
	request, err := http.NewRequest(http.MethodGet, a.url+datadogPath, nil)
	must(t, err)
	request.Header.Set("Accept-Encoding", "identity")
	slow, err := patient.Do(request)
	must(t, err)
	defer slow.Body.Close()
	refused := func() bool {
		resp, body := a.get(t, datadogPath, "")
		return resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "more than there is room for")
	}
	for range 3 {
		if !refused() {
			t.Error("the room of an answer that nobody reads is given to another one")
		}
	}
	p.more.Store(0)
	if resp, body := a.get(t, datadogPath, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("a small answer: %d %s", resp.StatusCode, body)
	}
	p.more.Store(7 << 20)
	must(t, slow.Body.Close())
	eventually(t, "there is room again", func() bool { return !refused() })
}

// Policies and the rights of the caller come before the provider is asked.
func TestRoutesAskForRightsFirst(t *testing.T) {
	p := newOtherProvider(t)
	plane := newControlPlane(t)
	plane.tokens["of-reader"] = "reader"
	plane.rights["reader"] = []string{"list external.metrics.k8s.io/datadogmetric@shop:a in shop", "list external.metrics.k8s.io/datadogmetric@shop:b in shop"}
	set := policy.New(time.Minute)
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{Rules: []policy.Rule{
		{Metric: "datadogmetric@shop:b", Deny: true}}})})
	cfg := configured(nil)
	server, err := New(cfg, Parts{Source: shop(), Cluster: newTown(), API: plane.rest(), Policies: set, Routes: routesTo(t, p.spec()),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { routeKlog(slog.New(slog.DiscardHandler)) })
	a := running(t, server)
	a.waitReady(t)
	for metric, want := range map[string]string{
		"datadogmetric@shop:b": `the external metric "datadogmetric@shop:b" is denied by rules[0] of externalmetricpolicy/ours`,
		"datadogmetric@shop:c": `cannot list resource "datadogmetric@shop:c" in API group "external.metrics.k8s.io"`,
	} {
		resp, s := a.as(t, bearer("of-reader"), externalRoot+"namespaces/shop/"+metric)
		if resp.StatusCode != 403 || !strings.Contains(s.Message, want) {
			t.Errorf("%s: %d %s", metric, resp.StatusCode, s.Message)
		}
	}
	if p.asked.Load() != 0 {
		t.Error("the provider was asked for what the caller may not read")
	}
	if resp, s := a.as(t, bearer("of-reader"), datadogPath); resp.StatusCode != 200 || p.asked.Load() != 1 {
		t.Errorf("allowed: %d %s, asked %d times", resp.StatusCode, s.Message, p.asked.Load())
	}
}

// A provider reads a question in its own way: KEDA and Datadog ignore the case of names, and of two requirements for a
// label KEDA takes the last. What a policy keeps from a reader is denied however it is spelled.
func TestPoliciesOfRoutedNamesAndSelectors(t *testing.T) {
	p := newOtherProvider(t)
	set := policy.New(time.Minute)
	mine := &policy.Selector{MatchLabels: map[string]string{route.ScaledObjectLabel: "mine"}}
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Name: "ours"}, policy.Spec{Rules: []policy.Rule{
		{Metric: "datadogmetric@shop:b.*|s0-Secreti?", Deny: true}, {Metric: "s0-.*", Selector: mine}, {Metric: "datadogmetric.*", Selector: &policy.Selector{}}}})})
	a := running(t, prepared(t, Parts{Policies: set, Routes: routesTo(t, p.spec())}, anonymousAccess()))
	a.waitReady(t)
	const label = "?labelSelector=" + route.ScaledObjectLabel
	for path, want := range map[string]int{
		"datadogmetric@shop:a": 200,
		"datadogmetric@shop:a?labelSelector=tier!%3Dgold,tier!%3Dlead": 200,
		"datadogmetric@shop:A":                                             200,
		"datadogmetric@shop:b":                                             403,
		"datadogmetric@shop:B":                                             403,
		"datadogmetric@Shop:b%C5%BF":                                       403,
		"datadogmetric@shop:b:max:60s":                                     403,
		"S0-SECRET%C4%B0" + label + "=mine":                                403, // a dotted I, whose lower case is i
		"s0-secret" + label + "=mine":                                      403,
		"S0-SECRET" + label + "=mine":                                      403,
		"s0-rate" + label + "=mine":                                        200,
		"s0-rate" + label + "%20in%20(mine),other=x":                       200,
		"s0-rate" + label + "=theirs":                                      403,
		"S0-rate" + label + "=theirs":                                      403,
		"s0-rate" + label + "=mine," + route.ScaledObjectLabel + "=theirs": 403,
		"s0-rate" + label + "=theirs," + route.ScaledObjectLabel + "=mine": 403,
		"s0-rate" + label + "=mine," + route.ScaledObjectLabel + "%20in%20(mine,theirs)": 403,
		"s0-rate" + label + "=theirs,other%3E9223372036854775807":                        403,
		"orders_waiting" + label + "=theirs":                                             200,
	} {
		asked := p.asked.Load()
		resp, body := a.get(t, externalRoot+"namespaces/shop/"+path, "")
		if resp.StatusCode != want || want != 200 && p.asked.Load() != asked {
			t.Errorf("%s: %d, want %d: %s", path, resp.StatusCode, want, body)
		}
	}
}

// Discovery doesn't list a name of another provider that the cluster denies to all, in whichever
// case the policy has it.
func TestPoliciesHideRoutedNames(t *testing.T) {
	set := policy.New(time.Minute)
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Name: "ours"}, policy.Spec{Rules: []policy.Rule{{Metric: "Orders_.*", Deny: true}}})})
	a := running(t, prepared(t, Parts{Source: &memory{}, Policies: set, Routes: routesTo(t, newOtherProvider(t).spec())}, anonymousAccess()))
	a.waitReady(t)
	var listed []string
	eventually(t, "discovery lists what the provider has", func() bool {
		listed = a.names(t, "external.metrics.k8s.io/v1beta1")
		return slices.Contains(listed, "datadogmetric@shop:a")
	})
	if slices.Contains(listed, "orders_waiting") {
		t.Errorf("discovery lists %v", listed)
	}
}

// Two Sluices that route to each other, and one that routes to itself, are found before a metric is asked for, and
// no query is forwarded twice.
func TestRoutingLoop(t *testing.T) {
	for name, next := range map[string][]int{"itself": {0}, "each other": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			folders, addresses, servers := make([]string, len(next)), make([]string, len(next)), make([]*api, len(next))
			for i := range next {
				folders[i], addresses[i] = t.TempDir(), freeAddress(t)
			}
			configured := func(i int) func(*Config) {
				return func(c *Config) { c.CertDir, c.Address = folders[i], addresses[i] }
			}
			for i := range next { // makes the certificates, which stay
				cfg := DefaultConfig()
				configured(i)(&cfg)
				if _, err := servingCertificate(cfg, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
			}
			routers := make([]*route.Router, len(next))
			for i, to := range next {
				routers[i] = routesTo(t, route.Spec{Name: "other", URL: "https://" + addresses[to],
					CAFile: filepath.Join(folders[to], "ca.crt"), Metrics: []string{"*"}})
				servers[i] = running(t, prepared(t, Parts{Routes: routers[i]}, anonymousAccess(), configured(i)))
			}
			for i := range servers {
				servers[i].waitReady(t)
				eventually(t, "the loop is found", func() bool {
					why, _ := routers[i].Find("shop", "orders_waiting", nil).Fault()
					return strings.Contains(why, "is a Sluice that routes metrics itself")
				})
				resp, body := servers[i].get(t, ordersPath, "")
				if s := status(t, body); resp.StatusCode != 503 || !strings.Contains(s.Message, "requests would go round") {
					t.Errorf("%d %s", resp.StatusCode, s.Message)
				}
				req, err := http.NewRequest(http.MethodGet, servers[i].url+ordersPath, nil)
				must(t, err)
				req.Header.Set(route.ForwardedHeader, "true")
				forwarded, err := servers[i].client.Do(req)
				must(t, err)
				_ = forwarded.Body.Close()
				if forwarded.StatusCode != http.StatusLoopDetected {
					t.Errorf("forwarded: %d", forwarded.StatusCode)
				}
			}
		})
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// The groups of Sluice's own name serve the same metrics, and say so in their lists.
func TestOwnGroups(t *testing.T) {
	a := start(t, shop(), func(c *Config) { c.OwnGroups = true })
	for path, kind := range map[string]string{
		"/apis/custom.metrics.sluice.dev/v1beta2/namespaces/shop/pods/*/http_requests":                                           "MetricValueList",
		"/apis/custom.metrics.sluice.dev/v1beta1/namespaces/shop/pods/*/http_requests?metricLabelSelector=code%3D200":            "MetricValueList",
		"/apis/custom.metrics.sluice.dev/v1beta2/namespaces/shop/metrics/queue-length":                                           "MetricValueList",
		"/apis/external.metrics.sluice.dev/v1beta1/namespaces/shop/orders_waiting?labelSelector=" + url.QueryEscape("tier=gold"): "ExternalMetricValueList",
	} {
		for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"} {
			resp, body := a.get(t, path, accept)
			_, original := a.get(t, strings.Replace(path, "metrics.sluice.dev", "metrics.k8s.io", 1), accept)
			group := strings.Split(path, "/")[2]
			renamed := strings.ReplaceAll(string(original), "metrics.k8s.io", "metrics.sluice.dev")
			if resp.StatusCode != 200 || !strings.Contains(string(body), kind) || !strings.Contains(string(body), group) {
				t.Errorf("%s as %s: %d %s", path, accept, resp.StatusCode, body)
			}
			if accept != "application/vnd.kubernetes.protobuf" && string(body) != renamed { // protobuf has lengths
				t.Errorf("%s as %s:\n%s\nwant\n%s", path, accept, body, renamed)
			}
		}
	}
	if got := a.names(t, "external.metrics.sluice.dev/v1beta1"); !slices.Equal(got, shopExternal) {
		t.Errorf("external names: %v", got)
	}
	if got := a.names(t, "custom.metrics.sluice.dev/v1beta1"); !slices.Equal(got, shopCustom) {
		t.Errorf("custom names: %v", got)
	}
	partial := "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	if resp, body := a.get(t, "/apis/external.metrics.sluice.dev/v1beta1/namespaces/shop/orders_waiting", partial); resp.StatusCode != 200 {
		t.Errorf("metadata only: %d %s", resp.StatusCode, body)
	}
	if resp, _ := a.get(t, "/openapi/v2", ""); resp.StatusCode != 200 {
		t.Errorf("OpenAPI: %d", resp.StatusCode)
	}
	plain := start(t, shop())
	if resp, _ := plain.get(t, "/apis/external.metrics.sluice.dev/v1beta1", ""); resp.StatusCode != 404 {
		t.Errorf("without the setting: %d", resp.StatusCode)
	}
}

// BenchmarkRoute asks for a metric of another provider, as an autoscaler does: at the provider itself, and by way of
// Sluice; and for one of Sluice's own. The difference of the first two medians is what a route costs, that of the last two
// what Sluice takes to ask. All are on this machine, over kept connections.
func BenchmarkRoute(b *testing.B) {
	p := newOtherProvider(b)
	a := running(b, prepared(b, Parts{Routes: routesTo(b, p.spec())}, anonymousAccess()))
	a.waitReady(b)
	for name, at := range map[string]struct {
		client *http.Client
		url    string
	}{"direct": {p.Client(), p.URL + datadogPath}, "routed": {a.client, a.url + datadogPath}, "own": {a.client, a.url + ordersPath}} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				resp, err := at.client.Get(at.url)
				must(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}
