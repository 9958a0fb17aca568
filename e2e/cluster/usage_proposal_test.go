package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// usageProposal are the sentences of Kubernetes' proposal of 2015 about the usage of pods and nodes, with the tests that show them, or what
// docs/usage.md says where they are not met.
var usageProposal = []struct{ sentence, tests, said string }{
	{sentence: "provide machine level metrics, all pod metrics (in single request), specific pod metrics", tests: "TestUsage TestWatchUsage"},
	{sentence: "ability to authenticate machine & pod metrics independently from each other", tests: "TestUsage"},
	{sentence: "support multiple kinds of metrics (e.g. raw & derived types)", tests: "TestRawUsage TestUsage"},
	{sentence: "follow existing API conventions", tests: "TestResourceMetricsVersions TestWatchUsage"},
	{sentence: "the resource usage data can be shown to the user via a periodically refreshing interface similar to top", tests: "TestUsage"},
	{sentence: "the scheduler needs to know the current free resources on each node", tests: "TestUsage"},
	{sentence: "/: discovery endpoint; type resource list", tests: "TestWatchUsage"},
	{sentence: "/rawNodes, /rawPods: all raw pod metrics across all namespaces", tests: "TestRawUsage"},
	{sentence: "/rawNodes/localhost: the only node provided is localhost", tests: "TestUsage", said: "a node by its own name"},
	{sentence: "/namespaces/{namespace}/rawPods, and /{pod}", tests: "TestRawUsage TestUsage TestUsageOfReplicas"},
	{sentence: "RawContainer: Spec ContainerSpec, Stats []ContainerStats (mirror cadvisorv2)", tests: "TestRawUsage", said: "nothing else of what cAdvisor knows"},
	{sentence: "/derivedNodes; /nodes/{node}", tests: "TestUsage TestWatchUsage"},
	{sentence: "/derivedPods: all derived pod metrics across all namespaces", tests: "TestWatchUsage"},
	{sentence: "/namespaces/{namespace}/derivedPods, and /{pod}", tests: "TestUsage TestWatchUsage"},
	{sentence: "unsupported paths return status not found (404): /namespaces/, /namespaces/{namespace}", tests: "TestUsage"},
	{sentence: "start: the first sample after the start time is the actual beginning; end", tests: "TestPoints TestRawUsage"},
	{sentence: "step: the time step between each stats sample, default 10s, must be a multiple of 10s", tests: "TestPoints TestRawUsage TestUsage"},
	{sentence: "count: maximum number of stats to return in each ContainerMetrics instance", tests: "TestPoints TestRawUsage"},
	{sentence: "all endpoints support start, end, step and count", said: "the derived ones have one answer, the newest"},
	{sentence: "labelSelector, fieldSelector: restrict the list of returned objects", tests: "TestWatchUsage TestResourceMetricsVersions"},
	{sentence: "if any use cases are found that would benefit from RC, namespace or service aggregation", said: "not rolled up from its pods"},
	{sentence: "SystemContainers []DerivedContainer", said: "containers of the node's own system"},
	{sentence: "last overlapping 10s, 1m, 1h and 1d", tests: "TestWindowsAreExact"},
	{sentence: "updated every 10s, so the 10s window is sequential and the rest are rolling", tests: "TestStepsAreSequential TestUsageOfCgroups",
		said: "the newest point, 10 to 30 seconds long"},
	{sentence: "end time of all the time windows in Metrics", said: "`endtime` is one for all"},
	{sentence: "mean, max, 95th", tests: "TestWindowsAreExact TestUsage"},
	{sentence: "each kubelet will periodically - every 10s - POST its derived metrics", tests: "TestUsage TestUsageIsPassedOn"},
	{sentence: "any users of the metrics can register as watchers to receive the new metrics when they are available", tests: "TestWatchUsage TestUsage"},
	{sentence: "users of the metrics may also periodically poll", tests: "TestUsage"},
	{sentence: "only serve said most recent data per node", tests: "TestUsageIsPassedOn TestUsageOfReplicas"},
	{sentence: "if a pod gets deleted, the API server will get rid of any metrics", tests: "TestUsage TestWatchUsage"},
	{sentence: "kubelets being restarted: they would lose historical data", tests: "TestHandOver TestHistoriesAreHandedOver", said: "An update hands it over to the next agent"},
}

// Each sentence of the proposal has a test that exists, or a page that says what is not met.
func TestUsageProposal(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "usage.md"))
	must(t, err)
	var tests strings.Builder
	for _, folder := range []string{".", "../../adapter", "../../aggregate/usage", "../../replica", "../../replica/agents"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			tests.Write(text)
		}
	}
	for _, one := range usageProposal {
		for _, name := range strings.Fields(one.tests) {
			if !strings.Contains(tests.String(), "func "+name+"(t *testing.T)") {
				t.Errorf("%q: there is no %s", one.sentence, name)
			}
		}
		if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), one.said) {
			t.Errorf("%q: docs/usage.md does not say %q", one.sentence, one.said)
		}
		if one.tests == "" && one.said == "" {
			t.Errorf("%q has neither a test nor a word", one.sentence)
		}
	}
}
