package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
	"github.com/sluice-metrics/sluice/metric"
)

func TestListShowsWhatWasPushed(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	for _, path := range []string{"/v1/namespaces/shop/pods/web-1/http_requests", "/v1/namespaces/shop/pods/web-2/http_requests", "/v1/external/jobs?type=counter"} {
		accepted(t, p, "POST", path, "3")
	}
	accepted(t, p, "PUT", "/metrics/job/backup/instance/a", "x 4\n")
	list := func(args ...string) string {
		t.Helper()
		code, out, errs := called(t, append([]string{"list", "--kubeconfig", p.kubeconfig}, args...)...)
		if code != command.ExitOK || errs != "" {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		return out
	}
	want := `NAMESPACE   NAME            OF         KIND      OBJECTS   SERIES   LAST SAMPLE   READ BY
-           jobs            external   counter   -         1        0s            -
-           x               external   gauge     -         1        0s            -
shop        http_requests   pods       counter   2         2        0s            -
`
	if got := regexp.MustCompile(`\d+s +-`).ReplaceAllString(list(), "0s            -"); got != want {
		t.Errorf("metrics:\n%s, want\n%s", got, want)
	}
	for what, want := range map[string][]string{
		"objects -n shop": {"pods/web-1", "pods/web-2"},
		"groups":          {"backup", "instance=a"},
		"limits":          {"no limits: this Sluice runs standalone, "},
		"hpas -n shop":    {"no HorizontalPodAutoscalers in namespace shop: this Sluice runs standalone, and they exist in a cluster only (of a cluster: --kubeconfig)"},
		"rules":           {"no rules\n"},
		"metric -n none":  {"no metrics in namespace none"},
	} {
		if out := list(strings.Fields(what)...); !commandtest.ContainsAll(out, want) {
			t.Errorf("%s:\n%s, want %q", what, out, want)
		}
	}
	var page inspect.List[inspect.Metric]
	if out := list("metrics", "-n", "shop", "-o", "json"); json.Unmarshal([]byte(out), &page) != nil || page.Kind != "MetricList" ||
		len(page.Items) != 1 || page.Items[0].Objects != 2 {
		t.Errorf("json:\n%s", out)
	}
}

// A sender of external metrics is listed with their series, and was heard when it last sent a line that
// is known. Of metrics that several senders push, it isn't known whose the newest sample is: the sender was
// heard between its last new line and that.
func TestSendersOfExternalMetricsAreListed(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t)
	conn, err := net.Dial("udp", p.udpAddress())
	must(t, err)
	defer conn.Close()
	const line = "jobs:1|c|#queue:a,sluice_object:external/shop\njobs:1|c|#queue:b,sluice_object:external/shop"
	sender := func() inspect.Sender {
		if all := p.inspection().Senders(inspect.Query{}).Items; len(all) == 1 {
			return all[0]
		}
		return inspect.Sender{}
	}
	pushUntil := func(what string, is func(inspect.Sender) bool) (one inspect.Sender) {
		t.Helper()
		eventually(t, func() bool {
			fmt.Fprint(conn, line)
			one = sender()
			return is(one)
		}, func() string { return fmt.Sprintf("never %s: %+v", what, one) })
		return one
	}
	first := pushUntil("listed", func(s inspect.Sender) bool { return s.Series == 2 })
	if first.Name != "127.0.0.1" || !slices.Equal(first.Metrics, []string{"jobs"}) {
		t.Errorf("%+v", first)
	}
	pushUntil("heard again", func(s inspect.Sender) bool { return s.LastHeard.After(first.LastHeard) })

	p.pushers.Pushed(&metric.Sender{Key: 7, Address: netip.MustParseAddr("10.0.0.7")}, "shop", []byte("jobs"))
	before := sender().LastHeard
	got := pushUntil("perhaps heard again", func(s inspect.Sender) bool { return s.MaybeHeard.After(before) })
	if got.LastHeard.After(before) {
		t.Errorf("a metric of two senders was heard from one of them: %v after %v", got.LastHeard, before)
	}
	for n := range inspect.MetricSenders { // they displace it
		p.pushers.Pushed(&metric.Sender{Key: 8 + uint64(n), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(8 + n)})}, "shop", []byte("jobs"))
	}
	for range 16 * inspect.MetricSenders {
		p.pushers.Pushed(&metric.Sender{Key: 99, Address: netip.MustParseAddr("10.0.0.99")}, "shop", []byte("jobs"))
		p.pushers.Pushed(&metric.Sender{Key: 98, Address: netip.MustParseAddr("10.0.0.98")}, "shop", []byte("jobs"))
	}
	asked := time.Now()
	if got := sender(); slices.Contains(got.Metrics, "jobs") || got.MaybeHeard.Before(asked) {
		t.Errorf("one of many senders, which isn't remembered, may have been heard now: %+v", got)
	}
}

// A sender of metrics of other objects may have been heard now: its known lines don't say who sent them.
func TestASenderForOthersMayHaveBeenHeard(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t)
	own, other := &metric.Sender{Key: 5, Pod: &metric.Pod{Namespace: "shop", Name: "web-1", UID: "u1"}}, &metric.Sender{Key: 6, Pod: &metric.Pod{Namespace: "shop", Name: "agent", UID: "u2"}}
	account := &metric.Sender{Key: 7, Principal: &metric.Principal{User: "jane"}}
	for _, s := range []*metric.Sender{own, other, account} {
		p.senders.HeardLine(s)
		p.senders.Described(s, &metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"})
	}
	time.Sleep(10 * time.Millisecond)
	for _, sender := range p.inspection().Senders(inspect.Query{}).Items {
		if may := !sender.MaybeHeard.IsZero(); may != (sender.Name == "agent") {
			t.Errorf("%+v", sender)
		}
	}
}

// With -o wide, lists have what an expert looks for.
func TestWideLists(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	for _, line := range []string{"http_requests:3|c|#pod:web-1,namespace:shop,code:200,path:/a", "http_requests:3|c|#pod:web-1,namespace:shop,code:500", "depth:42|g|#sluice_object:external/shop"} {
		accepted(t, p, "POST", "/v1/statsd", line)
	}
	for what, want := range map[string][]string{
		"metrics -n shop": {"VALUE", "LABELS", "STATS", "depth", "42", "code,path", "rate,count"},
		"objects -n shop": {"METRIC NAMES", "http_requests"},
	} {
		code, out, errs := called(t, append([]string{"list", "-o", "wide", "--kubeconfig", p.kubeconfig}, strings.Fields(what)...)...)
		if code != command.ExitOK || !commandtest.ContainsAll(out, want) {
			t.Errorf("%s: %d %s\n%s\nwant %q", what, code, errs, out, want)
		}
	}
}
