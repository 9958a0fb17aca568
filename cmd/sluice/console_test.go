package main

import (
	"encoding/base64"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/console"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// page is what the console answers.
func page(t *testing.T, p *dataPath, path string) (status int, text string) {
	t.Helper()
	return asked(t, http.MethodGet, "http://"+p.console.Addr().String()+path, "")
}

func TestConsoleShowsWhatWasPushed(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--console-address", "127.0.0.1:0")
	if code, _, errs := called(t, "push", "--statsd", p.udpAddress(), "seen:1|c|#sluice_object:external/shop"); code != command.ExitOK {
		t.Fatal(errs)
	}
	eventually(t, func() bool { return p.table.Series() == 1 }, func() string { return "the sample was not applied" })
	for path, want := range map[string]string{
		"/metrics": "seen</bdi>", "/metric?namespace=shop&name=seen": "A counter with 1 series", "/health": "received", "/": "seen</bdi>",
		"/try?line=seen:1%7Cg%7C%23sluice_object:external/shop": "it is already a counter; cannot push it as a gauge",
	} {
		if status, body := page(t, p, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, status, want, body)
		}
	}
	if text := p.banner(); !strings.Contains(text, "console      http://127.0.0.1:") {
		t.Errorf("the banner names no console:\n%s", text)
	}
}

// The value of a list is what an autoscaler gets: the sum of an external metric's series, the mean of objects. A
// metric's page has the values of the stat and the window that are asked for.
func TestConsoleShowsWhatAutoscalersGet(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--console-address", "127.0.0.1:0")
	for _, line := range []string{"depth:10|g|#q:a,sluice_object:external/shop", "depth:24|g|#q:b,sluice_object:external/shop", "busy:10|g|#sluice_object:deployments.apps/web,namespace:shop",
		"busy:24|g|#sluice_object:deployments.apps/api,namespace:shop", "hits:7|c|#sluice_object:deployments.apps/api,namespace:shop"} {
		if code, _, errs := called(t, "push", "--statsd", p.udpAddress(), line); code != command.ExitOK {
			t.Fatal(errs)
		}
	}
	eventually(t, func() bool { return p.table.Series() == 5 }, func() string { return "not all was applied" })
	for path, want := range map[string]string{
		"/metrics?filter=depth": "<b>34</b> <small>sum last</small>", "/metrics?filter=busy": "<b>17</b> <small>mean last</small>",
		"/metric?namespace=shop&of=deployments.apps&name=hits&stat=total": ">7</b>", "/metric?namespace=shop&of=deployments.apps&name=hits&stat=count&window=1m": ">7</b>",
	} {
		if _, body := page(t, p, path); !strings.Contains(body, want) {
			t.Errorf("%s: without %q:\n%s", path, want, body)
		}
	}
}

// Standalone, a group is deleted as by a DELETE of the push port: by anyone on this machine, unless that port asks for
// credentials.
func TestConsoleDeletesGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags        []string
		first, again int // status
		left         int // groups
	}{
		{nil, http.StatusOK, http.StatusNotFound, 1},
		{[]string{"--push-basic-auth-file", fileOf(t, ofWarehouse)}, http.StatusForbidden, http.StatusForbidden, 2},
	} {
		p := started(t, t.TempDir(), append(c.flags, "--console-address", "127.0.0.1:0")...)
		for _, instance := range []string{"a", "b"} {
			if status, text := spoken(t, p, "PUT", "/metrics/job/batch/instance/"+instance, "done 1\n", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("warehouse:open sesame"))); status != http.StatusOK {
				t.Fatal(status, text)
			}
		}
		for _, want := range []int{c.first, c.again} {
			resp, err := http.PostForm("http://"+p.console.Addr().String()+"/groups/delete", url.Values{"group": {"/metrics/job/batch/instance/a"}})
			must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != want || p.groups.Count() != c.left {
				t.Errorf("with %q: %s, %d groups are left; want %d, %d", c.flags, resp.Status, p.groups.Count(), want, c.left)
			}
		}
	}
}

// Every command that a page of a server without metrics shows works as it is printed, and so do those of the
// pages of the metrics that it made.
func TestCommandsOfTheConsoleWork(t *testing.T) {
	t.Setenv(asSluice, "1")
	p := started(t, t.TempDir(), "--console-address", "127.0.0.1:0")
	shown := func(path string) (commands string) {
		_, body := page(t, p, path)
		for _, one := range preformatted.FindAllStringSubmatch(body, -1) {
			commands += html.UnescapeString(one[1]) + "\n"
		}
		return commands
	}
	if ran := runShown(t, shown("/metrics")); ran < 1 {
		t.Fatal("no command pushes")
	}
	eventually(t, func() bool { return p.table.Series() == 2 }, func() string { return "the commands pushed no counter and gauge" })
	for _, path := range []string{"/metric?name=http_requests", "/metric?namespace=shop&of=deployments.apps&name=queue_depth"} {
		if ran := runShown(t, shown(path)); ran < 1 {
			t.Errorf("%s: %d commands ran; want one, and two with kubectl:\n%s", path, ran, shown(path))
		}
	}
}

var preformatted = regexp.MustCompile(`(?s)<pre[^>]*>(.*?)</pre>`)

func seesAll(string) bool { return true }

// A trial says of each line what a push of it does, and applies nothing.
func TestTrial(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	lines := []struct{ line, reason, has string }{
		{"a:1|c", "applied", "adds 1"}, {"a:1|c|@0.1", "applied", "adds 1 × 10"}, {"g:-3|g", "applied", "shifts it by -3"}, {"t:12|ms", "applied", "observes 12"},
		{"s:bob|s", "applied", "the member bob"}, {"a 1|c", "malformed", "must be name:value|type"}, {"a:x|c", "malformed", "is no number"},
		{"a%:1|c", "name", "no Kubernetes API"}, {"a:1|c|@7", "rate", ""}, {"_e{1,1}:a|b", "unsupported", "events"},
		{"datadog.dogstatsd.client.metrics:1|c", "ignored", "ignore"}, {"old:1|g|T1", "outdated", "5 minutes"}, {"a:1|c|#sluice_object:nope", "identity", `no resource "nope"`},
		{"a:1|c|#sluice_object:foo.bar/x", "identity", `no resource "foo.bar"`}, {"a:1|c|#sluice_object:pods/", "identity", `must be "<resource>/<name>"`},
		{"a:1|c|#sluice_object:pods/a/b", "identity", `must be "<resource>/<name>"`},
		{"gone:1|c|#pod:web-1,namespace:shop", "applied", "web-1"},
	}
	for _, c := range lines {
		all := p.try([]byte(c.line), "", seesAll)
		if len(all) != 1 {
			t.Fatalf("%q: %+v", c.line, all)
		}
		if outcome := all[0]; outcome.Reason != c.reason || !strings.Contains(outcome.Why+outcome.Value+outcome.Of, c.has) {
			t.Errorf("%q: %+v; want %s with %q", c.line, outcome, c.reason, c.has)
		}
	}
	if n := p.table.Series(); n != 0 {
		t.Fatalf("trials made %d series", n)
	}
	for _, c := range lines { // the same verdicts as those of a push
		status, body := spoken(t, p, http.MethodPost, "/v1/statsd", c.line)
		applied, want := status == http.StatusOK, c.reason == "applied" || c.reason == "ignored"
		if applied != want || !applied && !strings.Contains(body, `"`+c.reason+`"`) {
			t.Errorf("%q: a push says %d %s", c.line, status, body)
		}
	}
}

// awayFromAPIServer is a server of a cluster whose API server can't be reached. The loopback address is a
// trusted forwarder.
func awayFromAPIServer(t *testing.T, args ...string) *dataPath {
	t.Helper()
	kubeconfig := fileOf(t, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://"+loopbackAddresses(1)[0]+"\"}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	return started(t, t.TempDir(), append([]string{"--standalone=false", "--kubeconfig", kubeconfig,
		"--trusted-forwarders", "127.0.0.1/32"}, args...)...)
}

// A trial judges as the server does for the sender: its rights, and the limits of new series too, not
// of new metrics alone. It changes nothing.
func TestTrialAsTheServerWouldJudge(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t, "--namespace-metrics", "2", "--namespace-series", "2")
	push := func(line string) {
		conn, err := net.Dial("udp", p.udpAddress())
		must(t, err)
		defer conn.Close()
		fmt.Fprint(conn, line)
	}
	push("jobs:1|c|#queue:a,sluice_object:external/shop")
	push("jobs:1|c|#queue:b,sluice_object:external/shop")
	eventually(t, func() bool { return p.table.Series() == 2 }, func() string { return "the lines made no series" })
	const claim = ",sluice_object:external/shop"
	for _, c := range []struct{ line, sender, reason, has string }{
		{"jobs:1|c|#queue:a" + claim, "127.0.0.1", "applied", "next read"},
		{"jobs:1|c|#queue:c" + claim, "127.0.0.1", "limit", "2 series"},
		{"mails:1|c|#queue:a" + claim, "127.0.0.1", "limit", "2 series"},
		{"mails:1|c|#queue:a,sluice_object:external/bank", "127.0.0.1", "applied", "next read"},
		{"jobs:1|g|#queue:a" + claim, "127.0.0.1", "kind_conflict", "it is already a counter; cannot push it as a gauge"},
		{"jobs:1|c|#queue:a" + claim, "10.9.9.9", "pending", "not known"},
		{"jobs:1|c|#queue:a" + claim, "", "identity", "trusted forwarder"},
		{"jobs:1|c|#queue:a" + claim, "jane", "pending", "kubectl auth can-i create samples.sluice.dev -n shop --as=jane"},
		{"jobs:1|c|#queue:a" + claim, "shop/web-1", "identity", "there is no pod shop/web-1"},
	} {
		outcome := p.try([]byte(c.line), c.sender, seesAll)[0]
		if outcome.Reason != c.reason || !strings.Contains(outcome.Why, c.has) {
			t.Errorf("%s from %q: %s: %s; want %s with %q", c.line, c.sender, outcome.Reason, outcome.Why, c.reason, c.has)
		}
	}
	if n := p.table.Series(); n != 2 {
		t.Errorf("after trials there are %d series", n)
	}
	if uses := p.inspection().Limits(inspect.Query{}).Items; len(uses) != 1 || uses[0].Rejected != 0 {
		t.Errorf("trials count as rejections: %+v", uses)
	}
}

// A trial tells a reader who may not see a namespace nothing of what is there, whatever the sender may.
func TestTrialsHideOtherNamespaces(t *testing.T) {
	t.Parallel()
	c := withNamespaces(map[string]string{"shop": "1", "bank": "2"})
	there := func(namespace, name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name,
			"uid": namespace + name, "resourceVersion": "1"}}
	}
	c.items["/api/v1/configmaps"] = []any{there("shop", "one"), there("bank", "one")}
	p := startedIn(t, c, "--object-kinds=namespaces,configmaps", "--namespace-metrics=2", "--namespace-series=2")
	for _, namespace := range []string{"shop", "bank"} {
		for _, path := range []string{"external/jobs", "configmaps/one/jobs"} {
			accepted(t, p, "PUT", "/v1/namespaces/"+namespace+"/"+path, "7")
		}
	}
	sees := func(namespace string) bool { return namespace == "shop" }
	try := func(line, sender, claim string) console.Outcome {
		one := p.try([]byte(line+claim), sender, sees)[0]
		one.Line = ""
		return one
	}
	for _, sender := range []string{"127.0.0.1", "jane", ""} {
		for _, line := range []string{"jobs:1|g|#", "jobs:1|c|#", "more:1|g|#"} {
			for _, claims := range [][]string{
				{"namespace:bank,sluice_object:configmaps/one", "namespace:bank,sluice_object:configmaps/two", "namespace:none,sluice_object:configmaps/one"},
				{"sluice_object:external/bank", "sluice_object:external/none"},
				{"sluice_object:namespaces/bank", "sluice_object:namespaces/none"},
			} {
				want := try(line, sender, claims[0])
				if want.Applied() || want.Of != "" || want.New || want.NewSeries {
					t.Errorf("%s%s from %q: %+v", line, claims[0], sender, want)
				}
				for _, claim := range claims[1:] {
					if got := try(line, sender, claim); !reflect.DeepEqual(got, want) {
						t.Errorf("%s%s from %q: %+v, and of another object: %+v", line, claim, sender, got, want)
					}
				}
			}
		}
	}
	for claim, reason := range map[string]string{"namespace:shop,sluice_object:configmaps/one": "applied", "sluice_object:external/shop": "applied",
		"namespace:shop,sluice_object:configmaps/two": "identity", "sluice_object:namespaces/shop": "limit"} {
		if got := try("jobs:1|g|#", "127.0.0.1", claim); got.Reason != reason {
			t.Errorf("%s: %+v, want %s", claim, got, reason)
		}
	}
}
