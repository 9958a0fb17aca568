package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// A StatsD sample that a limit rejects is recorded in the words of the limit, as its Event is.
func TestARejectionRecordsItsLimit(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\n" +
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := started(t, filepath.Join(dir, "data"), "--standalone=false", "--kubeconfig", kubeconfig, "--namespace-metrics", "1",
		"--trusted-forwarders", "127.0.0.1/32")
	conn, err := net.Dial("udp", p.udpAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, name := range []string{"jobs", "mails"} {
		fmt.Fprintf(conn, "%s:1|c|#sluice_object:external/shop", name)
	}
	const want = `metric "mails" is rejected: the limit of namespace shop (without its pods) is 1 metric, and 1 is in use: jobs. ` +
		`Raise sluice.dev/metrics of type sluice.dev/Namespace in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`
	var all []inspect.Rejection
	for end := time.Now().Add(time.Minute); len(all) == 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all = p.inspection().Rejections(inspect.Query{}).Items
	}
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
	for end := time.Now().Add(time.Minute); !saysConflict(all, conflict) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all = p.inspection().Rejections(inspect.Query{}).Items
	}
	if !saysConflict(all, conflict) {
		t.Errorf("%+v, want\n%s", all, conflict)
	}
	if standalone := started(t, t.TempDir()).whyRejected(metric.OverLimit, nil); !strings.Contains(standalone, "--max-series is") {
		t.Errorf("standalone: %s", standalone)
	}
}

func saysConflict(all []inspect.Rejection, message string) bool {
	return slices.ContainsFunc(all, func(one inspect.Rejection) bool {
		return one.Reason == "kind_conflict" && one.Message == message
	})
}
