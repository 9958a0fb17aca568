package main

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate/rule/ruletest"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/metric"
)

func TestExplainAMetric(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	accepted(t, p, "POST", "/v1/namespaces/shop/pods/web-1/http_requests", "3")
	for name, c := range map[string]struct {
		code int
		says string
	}{
		"http_requests": {command.ExitOK, "http_requests is a counter on pods in shop: 1 series of 1 object"},
		"http_request":  {command.ExitFailed, "http_request was never pushed in shop, or has expired; did you mean http_requests?"},
	} {
		code, out, _ := called(t, "explain", name, "-n", "shop", "--kubeconfig", p.kubeconfig)
		const readAs = "  read as http_requests (rate); other stats: count, total; windows: 10s, 1m, as in http_requests:rate:10s\n"
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, readAs) != (code == command.ExitOK) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s", name, code, c.code, c.says, out)
		}
	}
}

// A metric that is in no namespace is explained in full from every namespace: its windows, its series and
// what rejects it.
func TestExplainAMetricOfNoNamespace(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	accepted(t, p, "PUT", "/v1/external/depth?label=queue=mail", "3")
	if status, body := spoken(t, p, "POST", "/v1/external/depth?type=counter", "1"); status != http.StatusConflict {
		t.Fatal(status, body)
	}
	code, out, errs := called(t, "explain", "depth", "-n", "shop", "--kubeconfig", p.kubeconfig)
	if code != command.ExitOK || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"depth is a gauge as an external metric of no namespace: 1 series", "; windows: 10s, 1m, as in depth:mean:10s\n", "queue=mail",
		`(kind_conflict), 0s ago: "depth" of "external" is already a gauge; cannot push it as a counter`} {
		if !strings.Contains(regexp.MustCompile(`\d+s ago`).ReplaceAllString(out, "0s ago"), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// An operand of a name that a rename gives is read where the pushed metric is.
func TestExplainARenamedOperand(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--rules-file", ruletest.File(t, ruletest.Busy+`---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: work, namespace: shop}
spec:
  metric: work_left
  let: {done: jobs_per_second}
  value: done - 5.0
`))
	accepted(t, p, "PUT", "/v1/namespaces/shop/external/jobs_total", "60")
	code, out, errs := called(t, "explain", "work_left", "-n", "shop", "--kubeconfig", p.kubeconfig)
	if code != command.ExitOK || !strings.Contains(out, "done = jobs_per_second: 60 (external)") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// The metric of a rule is explained by its operands on whatever they are pushed, and is wrong if one of
// them is absent. A renamed metric is explained by the pushed one.
func TestExplainNamesTheRuleOfAMetric(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--rules-file", ruletest.File(t, ruletest.Busy))
	push := func(path, value string) {
		t.Helper()
		accepted(t, p, "PUT", "/v1/namespaces/shop/"+path, value)
	}
	explain := func(code int, name string, wants ...string) {
		t.Helper()
		got, out, errs := called(t, "explain", name, "-n", "shop", "--kubeconfig", p.kubeconfig)
		for _, want := range wants {
			if got != code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: %d, want %d with %q:\n%s%s", name, got, code, want, out, errs)
			}
		}
	}
	push("pods/web-1/busy_workers", "3")
	push("external/hits_total", "60")
	explain(command.ExitFailed, "busy_ratio", "computed by metricrule/busy in shop: total > 0.0 ? busy / total : 0.0",
		"busy = busy_workers: 3 (pods/web-1)", "total = total_workers:last: absent: total_workers was never pushed in shop", "busy_ratio has no value in shop")
	push("pods/web-1/total_workers", "4")
	explain(command.ExitOK, "busy_ratio", "total = total_workers:last: 4 (pods/web-1)")
	explain(command.ExitOK, "hits_per_second", "hits_per_second is a name that clustermetricrule/per-second gives to hits_total", "hits_total: 60 (external)")
	explain(command.ExitFailed, "nothing", "nothing was never pushed in shop")
}

// A StatsD sample that a limit rejects is recorded in the words of the limit, as its Event is.
func TestARejectionRecordsItsLimit(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t, "--namespace-metrics", "1")
	conn, err := net.Dial("udp", p.udpAddress())
	must(t, err)
	defer conn.Close()
	for _, name := range []string{"jobs", "mails"} {
		fmt.Fprintf(conn, "%s:1|c|#sluice_object:external/shop", name)
	}
	const want = `metric "mails" is rejected: the limit of namespace shop (without its pods) is 1 metric, and 1 is in use: jobs. ` +
		`Raise sluice.dev/metrics of type sluice.dev/Namespace in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`
	var all []inspect.Rejection
	eventually(t, func() bool {
		all = p.inspection().Rejections(inspect.Query{}).Items
		return len(all) > 0
	}, func() string { return "nothing is rejected" })
	if len(all) != 1 || all[0].Message != want {
		t.Errorf("%+v, want\n%s", all, want)
	}
	uses := p.inspection().Limits(inspect.Query{}).Items
	if len(uses) != 1 || len(uses[0].Holders) != 1 || uses[0].Holders[0] != (inspect.Holder{Metric: "jobs", Series: 1}) {
		t.Errorf("uses %+v", uses)
	}
	if from := p.inspection().MetricSenders("shop", "jobs"); len(from) != 1 || from[0].Name != "127.0.0.1" || from[0].Sort != "address" {
		t.Errorf("senders of jobs: %+v", from)
	}
	fmt.Fprint(conn, "jobs:1|g|#sluice_object:external/shop")
	const conflict = `"jobs" is already a counter; cannot push it as a gauge: delete it first, or use another name`
	eventually(t, func() bool {
		all = p.inspection().Rejections(inspect.Query{}).Items
		return slices.ContainsFunc(all, func(rejection inspect.Rejection) bool {
			return rejection.Reason == "kind_conflict" && rejection.Message == conflict
		})
	}, func() string { return fmt.Sprintf("%+v, want\n%s", all, conflict) })
	if standalone := started(t, t.TempDir()).whyRejected(metric.OverLimit, nil); !strings.Contains(standalone, "--max-series is") {
		t.Errorf("standalone: %s", standalone)
	}
}
