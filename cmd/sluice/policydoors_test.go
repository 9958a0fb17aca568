package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/metric"
)

// Values that were pushed: of a metric that a policy denies, and of one that none is about.
const deniedValue, openValue = "4243", "5354"

// has reports whether a text has a value as a number of its own.
func has(text, value string) bool {
	return regexp.MustCompile(`(^|[^0-9.])` + value + `($|[^0-9.])`).MatchString(text)
}

// door is a way to values of external metrics.
type door struct {
	// asks are paths; {metric} is the name of a metric.
	asks []string
	// shows: the door shows the value of an open metric. Otherwise it has none to show, and why says so.
	shows bool
	why   string
}

func shown(asks ...string) door               { return door{asks: asks, shows: true} }
func without(why string, asks ...string) door { return door{asks: asks, why: why} }

const noValues = "it has no values of external metrics"

// pushDoors are the paths of HTTP push that answer to GET, as the OpenAPI document names them.
var pushDoors = map[string]door{
	"/v1/external/{metric}":                                 without("the metrics of the test are in a namespace", "/v1/external/{metric}"),
	"/v1/namespaces/{namespace}/external/{metric}":          shown("/v1/namespaces/shop/external/{metric}"),
	"/v1/namespaces/{namespace}":                            shown("/v1/namespaces/shop"),
	"/v1/namespaces":                                        without(noValues, "/v1/namespaces"),
	"/v1/namespaces/{namespace}/{resource}/{name}/{metric}": without("metrics of objects", "/v1/namespaces/shop/pods/*/{metric}"),
	"/v1/namespaces/{namespace}/metrics/{metric}":           without("metrics of a namespace", "/v1/namespaces/shop/metrics/{metric}"),
	"/v1/{clusterResource}/{name}/{metric}":                 without("metrics of objects", "/v1/nodes/a/{metric}"),
	"/metrics":                                              shown("/metrics"),
	"/metrics/series":                                       shown("/metrics/series", "/metrics/series?namespace=shop"),
	"/api/v1/metrics":                                       shown("/api/v1/metrics"),
	"/api/v1/status":                                        without(noValues, "/api/v1/status"),
	"/-/ready":                                              without(noValues, "/-/ready"),
	"/-/healthy":                                            without(noValues, "/-/healthy"),
	"/":                                                     without(noValues, "/"),
	"/openapi.json":                                         without(noValues, "/openapi.json"),
}

// inspectDoors are the lists of the API group inspect.sluice.dev, with their details.
var inspectDoors = map[string]door{
	"metrics":     shown("/namespaces/shop/metrics", "/metrics", "/namespaces/shop/metrics/{metric}"),
	"rules":       shown("/namespaces/shop/rules"),
	"autoscalers": shown("/namespaces/shop/autoscalers", "/namespaces/shop/autoscalers/{metric}"), // as their controller gets them
	"objects":     without(noValues, "/objects"),
	"senders":     without(noValues, "/senders"),
	"rejections":  without(noValues, "/rejections"),
	"groups":      without(noValues, "/groups"),
	"limituses":   without(noValues, "/limituses"),
	"policies":    without(noValues, "/policies"),
	"targets":     without(noValues, "/targets"),
	"agents":      without(noValues, "/agents"),
}

// consoleDoors are the pages of the console, and those that follow changes.
var consoleDoors = map[string]door{
	"/metrics":         shown("/metrics", "/metrics?namespace=shop&filter={metric}", "/metrics?sort=-value"),
	"/metric":          shown("/metric?namespace=shop&name={metric}", "/metric?namespace=shop&name={metric}&stat=mean&window=1m&digits=all&minutes=60"),
	"/live/metric":     shown("/live/metric?namespace=shop&name={metric}", "/live/metric?namespace=shop&name={metric}&stat=max&window=1m"),
	"/rules":           shown("/rules", "/rules?namespace=shop"),
	"/overview":        shown("/overview"),
	"/autoscaler":      shown("/autoscaler?namespace=shop&name={metric}"),
	"/live/autoscaler": shown("/live/autoscaler?namespace=shop&name={metric}"),
	"/senders":         without(noValues, "/senders", "/senders?namespace=shop"),
	"/live/senders":    without(noValues, "/live/senders"),
	"/groups":          without(noValues, "/groups", "/groups?namespace=shop"),
	"/live/groups":     without(noValues, "/live/groups"),
	"/replicas":        without(noValues, "/replicas"),
	"/refused":         without(noValues, "/refused"),
	"/limits":          without(noValues, "/limits"),
	"/health":          without(noValues, "/health"),
	"/nodes":           without(noValues, "/nodes"),
	"/live/nodes":      without(noValues, "/live/nodes"),
	"/try":             without(noValues, "/try?line={metric}:1|g%7C%23sluice_object:external/shop"),
	"/live/metrics":    shown("/live/metrics"),
	"/live/rules":      shown("/live/rules"),
	"/live/overview":   shown("/live/overview"),
	"/live/replicas":   without(noValues, "/live/replicas"),
	"/live/refused":    without(noValues, "/live/refused"),
	"/live/limits":     without(noValues, "/live/limits"),
	"/live/health":     without(noValues, "/live/health"),
}

// clusterObject is an object of the fake cluster.
func clusterObject(version, kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "spec": spec,
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}}
}

// withDeniedMetrics is a server of a cluster where a policy denies the metrics "secret…". Rules and autoscalers are
// of each metric, and readers have read those that they may.
func withDeniedMetrics(t *testing.T) *dataPath {
	c := newFakeCluster()
	const group = "/apis/sluice.dev/v1alpha1/"
	c.items[group+"externalmetricpolicies"] = []any{clusterObject("sluice.dev/v1alpha1", "ExternalMetricPolicy", "guard",
		map[string]any{"rules": []any{map[string]any{"metric": "secret.*", "deny": true}}})}
	for _, name := range []string{"secret", "open"} {
		c.items[group+"metricrules"] = append(c.items[group+"metricrules"], clusterObject("sluice.dev/v1alpha1", "MetricRule", name,
			map[string]any{"metric": "same_" + name, "let": map[string]any{"x": name}, "value": "x"}))
		c.items["/apis/autoscaling/v2/horizontalpodautoscalers"] = append(c.items["/apis/autoscaling/v2/horizontalpodautoscalers"],
			clusterObject("autoscaling/v2", "HorizontalPodAutoscaler", name, map[string]any{"maxReplicas": 3,
				"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
				"metrics": []any{map[string]any{"type": "External", "external": map[string]any{
					"metric": map[string]any{"name": name}, "target": map[string]any{"type": "Value", "value": "9"}}}}}))
	}
	p := startedIn(t, c, "--console-address", "127.0.0.1:0")
	for name, value := range map[string]string{"secret": deniedValue, "open": openValue} {
		accepted(t, p, "PUT", "/v1/namespaces/shop/external/"+name, value)
		group := fmt.Sprintf("# TYPE %[1]s_group gauge\n%[1]s_group %[2]s\n# TYPE %[1]s_timer summary\n%[1]s_timer_sum %[2]s\n%[1]s_timer_count 1\n", name, value)
		accepted(t, p, "PUT", "/metrics/job/"+name+"/namespace/shop", group)
		// Before the policy, somebody may have read the rule's metric.
		_, _ = p.reader().External(metric.Query{Namespace: "shop", Expression: metric.ParseExpression("same_" + name)})
	}
	return p
}

// trusting accepts every certificate.
var trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// awaitValue waits until a path shows the value of the open metric, and returns its answer.
func awaitValue(t *testing.T, base, path string) (answer string) {
	t.Helper()
	shows := func(text string) bool { return has(text, openValue) }
	eventually(t, func() bool {
		answer = ask(t, base, path, "open", shows)
		return shows(answer)
	}, func() string { return fmt.Sprintf("%s: %.2000s", path, answer) })
	return answer
}

// hasSent tells whether a stream has sent so many parts: the page's content first, later what has changed,
// or that nothing has.
func hasSent(parts int) func(string) bool {
	return func(text string) bool { return strings.Count(text, "\n\n") >= parts }
}

// ask returns what a path of a door answers about a metric; of a stream, until that is enough, or for a
// minute.
func ask(t *testing.T, base, path, name string, enough func(text string) bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+strings.ReplaceAll(path, "{metric}", name), nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer alice")
	resp, err := trusting.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if !strings.HasPrefix(path, "/live/") {
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	var text strings.Builder
	for lines := bufio.NewScanner(resp.Body); !enough(text.String()) && lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
	}
	return text.String()
}

// through asks a door about both metrics.
func (d door) through(t *testing.T, base, name string) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for _, path := range d.asks {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				var open string
				if d.shows {
					open = awaitValue(t, base, path)
				} else if open = ask(t, base, path, "open", hasSent(1)); has(open, openValue) {
					t.Errorf("it shows the value of an open metric, want none (%s)\n%.2000s", d.why, open)
				}
				secret := open
				if strings.Contains(path, "{metric}") {
					secret = ask(t, base, path, "secret", hasSent(2))
				}
				if has(secret, deniedValue) || has(open, deniedValue) {
					t.Errorf("it shows the value of a metric that a policy denies:\n%.2000s", secret)
				}
			})
		}
	})
}

// walk asks all doors, and wants the table to have those that there are.
func walk(t *testing.T, what, base string, there []string, table map[string]door) {
	t.Helper()
	slices.Sort(there)
	if want := slices.Sorted(maps.Keys(table)); !slices.Equal(slices.Compact(there), want) {
		t.Errorf("%s: the doors are\n%s\nthe table has\n%s\nAdd a new door to the table, and say in docs/policy.md whether policies apply to it",
			what, strings.Join(there, "\n"), strings.Join(want, "\n"))
	}
	for name, d := range table {
		if what == inspect.Group {
			asks := d.asks
			d.asks = nil
			for _, path := range asks {
				d.asks = append(d.asks, "/apis/"+inspect.GroupVersion+path)
			}
		}
		d.through(t, base, what+" "+name)
	}
}

// No way to values of external metrics leads around the policies.
func TestPoliciesAtEveryDoor(t *testing.T) {
	t.Parallel()
	p := withDeniedMetrics(t)
	push, api, console := "http://"+p.push.Addr().String(), "https://"+p.api.Addr().String(), "http://"+p.console.Addr().String()

	var document struct {
		Paths map[string]map[string]any
	}
	must(t, json.Unmarshal([]byte(ask(t, push, "/openapi.json", "", nil)), &document))
	var paths []string
	for path, methods := range document.Paths {
		if methods["get"] != nil {
			paths = append(paths, path)
		}
	}
	walk(t, "HTTP push", push, paths, pushDoors)

	var lists []string
	for _, resource := range inspect.Resources {
		lists = append(lists, resource.Name)
	}
	awaitValue(t, api, "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/open")
	awaitValue(t, "http://"+p.opsAddr.String(), "/metrics") // autoscalers are read every few seconds
	walk(t, inspect.Group, api, lists, inspectDoors)

	pages := []string{"/metric", "/live/metric", "/autoscaler", "/live/autoscaler", "/nodes", "/live/nodes", "/replicas", "/live/replicas"} // no link of this server's navigation
	for _, found := range regexp.MustCompile(`href="(/[a-z]+)"`).FindAllStringSubmatch(ask(t, console, "/health", "", nil), -1) {
		if pages = append(pages, found[1]); found[1] != "/try" {
			pages = append(pages, "/live"+found[1])
		}
	}
	walk(t, "console", console, pages, consoleDoors)

	walk(t, "metrics API", api, []string{"value", "discovery"}, map[string]door{
		"value":     shown("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/{metric}", "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/same_{metric}"),
		"discovery": without(noValues, "/apis/external.metrics.k8s.io/v1beta1"),
	})
	walk(t, "operations", "http://"+p.opsAddr.String(), []string{"/metrics"}, map[string]door{"/metrics": shown("/metrics")}) // autoscalers, as their controller gets them

	for name, want := range map[string]bool{"secret": false, "open": true, "same_secret": false, "same_open": true} {
		asked, err := p.triggers().Ask(trigger.Question{Namespace: "shop", Metric: name, Object: trigger.External})
		if err == nil {
			_, err = asked.Value()
		}
		if (err == nil) != want {
			t.Errorf("KEDA, %s: %v", name, err)
		}
	}
}
