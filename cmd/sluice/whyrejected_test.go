package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

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
