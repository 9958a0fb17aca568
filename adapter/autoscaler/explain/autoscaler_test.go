package explain

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// shop is an autoscaler that works: three pods, a pods metric and an external one.
func shop() *Facts {
	f := &Facts{
		Now: noon,
		Autoscaler: inspect.Autoscaler{
			Namespace: "shop", Name: "web", TargetKind: "Deployment", TargetName: "web",
			MinReplicas: 1, MaxReplicas: 10, CurrentReplicas: 3, DesiredReplicas: 3,
			Metrics: []inspect.AutoscalerMetric{
				{Source: "Pods", Name: "http_requests:rate:10s", TargetType: "AverageValue", Target: "100", Current: "100"},
			},
		},
		Scale: &Scale{SpecReplicas: 3, StatusReplicas: 3},
		Pods:  []inspect.TargetPod{running("web-1"), running("web-2"), running("web-3")},
		Readings: []Reading{{Asked: true, Values: []Value{
			value("web-1", 150), value("web-2", 150), value("web-3", 150)}}},
		APIs: map[string]API{
			CustomGroup:   {Exists: true, Sluice: true, Available: true, Service: "sluice/sluice-api:443"},
			ExternalGroup: {Exists: true, Sluice: true, Available: true, Service: "sluice/sluice-api:443"},
		},
		Metrics: []inspect.Metric{
			{Namespace: "shop", Name: "http_requests", Resource: "pods", Kind: "counter", Objects: 3, Series: 3},
			{Namespace: "shop", Name: "queue_depth", Kind: "gauge", Series: 2},
			{Namespace: "billing", Name: "invoices", Kind: "gauge", Series: 1},
		},
		Sets: [][]inspect.Series{nil},
	}
	return f
}

// routed has an external metric that another provider answers, which fails or has no value.
func routed(f *Facts, fault string) {
	f.Autoscaler.Metrics = []inspect.AutoscalerMetric{{Source: "External", Name: "datadogmetric@shop:orders", TargetType: "AverageValue", Target: "100",
		Provider: "datadog", ProviderFault: fault}}
	f.Readings = []Reading{{Asked: true, Code: 404, Fault: `the external metric "datadogmetric@shop:orders" is routed to the provider datadog, which does not have it: not found`}}
	if fault != "" {
		f.Readings[0].Code = 503
	}
}

func running(name string) inspect.TargetPod {
	return inspect.TargetPod{Name: name, Phase: "Running", Ready: true, Started: noon.Add(-time.Hour)}
}

// withAgents puts each pod on a node of its own. The agent of node-3 is cut off, node-9 has none.
func (f *Facts) withAgents() {
	for i := range f.Pods {
		f.Pods[i].Node = "node" + strings.TrimPrefix(f.Pods[i].Name, "web")
	}
	f.AgentOf = func(node string) (inspect.Agent, bool) {
		switch node {
		case "node-9":
			return inspect.Agent{}, false
		case "node-3":
			return inspect.Agent{Node: node, State: inspect.AgentCutOff, Since: noon.Add(-5 * time.Minute)}, true
		}
		return inspect.Agent{Node: node, State: inspect.AgentConnected}, true
	}
}

func value(of string, n int64) Value {
	return Value{Object: of, Milli: n * 1000, Text: number(n * 1000), Time: noon.Add(-time.Second)}
}

// external replaces the metric of shop by an external one without a value.
func external(f *Facts, name, selector string) {
	f.Autoscaler.Metrics = []inspect.AutoscalerMetric{
		{Source: "External", Name: name, Selector: selector, TargetType: "AverageValue", Target: "10"},
	}
	f.Readings = []Reading{{Asked: true, Code: 404, Fault: "no series of \"" + name + "\" has a value"}}
}

// provoked are the causes, each with facts that have it. "explain" of each is a golden file.
var provoked = []struct {
	name  string
	cause Cause
	facts func(*Facts)
}{
	{"healthy", "", func(*Facts) {}},
	{"not-registered", NotRegistered, func(f *Facts) { f.APIs[CustomGroup] = API{}; noAnswer(f) }},
	{"another-owner", NotRegistered, func(f *Facts) {
		external(f, "queue_depth", "")
		f.APIs[ExternalGroup] = API{Exists: true, Available: true, Service: "keda/keda-operator-metrics-apiserver:443", Owner: "KEDA"}
	}},
	{"unavailable", Unavailable, func(f *Facts) {
		noAnswer(f)
		f.APIs[CustomGroup] = API{Exists: true, Sluice: true, Service: "sluice/sluice-api:443", Reason: "MissingEndpoints",
			Message: "endpoints for service/sluice-api in \"sluice\" have no addresses with port name \"api\""}
	}},
	{"certificate", Unavailable, func(f *Facts) {
		noAnswer(f)
		f.APIs[CustomGroup] = API{Exists: true, Sluice: true, Service: "sluice/sluice-api:443", Reason: "FailedDiscoveryCheck",
			Message: "x509: certificate signed by unknown authority", Certificate: "the certificate of sluice/sluice-api:443 isn't signed by the APIService's caBundle"}
	}},
	{"unreachable", Unreachable, func(f *Facts) {
		noAnswer(f)
		f.APIs[CustomGroup] = API{Exists: true, Sluice: true, Service: "sluice/sluice-api:443", Reason: "FailedDiscoveryCheck",
			Message: "failing or missing response from https://10.0.0.7:6443/apis/custom.metrics.k8s.io/v1beta2: context deadline exceeded"}
	}},
	{"controller-right", RightMissing, func(f *Facts) {
		f.ControllerDenied = []Right{{"get", CustomGroup, "pods/http_requests:rate:10s"}}
		f.ReaderRole = "sluice-reader"
	}},
	{"controller-right-by-status", RightMissing, func(f *Facts) {
		f.Readings = []Reading{{Asked: true, Code: 403, Fault: `pods.custom.metrics.k8s.io "*" is forbidden: User "jane" cannot get resource`}}
		f.ReaderRole = "sluice-reader"
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetPodsMetric",
			Message: `unable to get metric http_requests: pods.custom.metrics.k8s.io "*" is forbidden: User "system:serviceaccount:kube-system:horizontal-pod-autoscaler" cannot get resource "pods/http_requests" in API group "custom.metrics.k8s.io" in the namespace "shop"`}}
	}},
	{"provider", Provider, func(f *Facts) { routed(f, "cannot be reached at https://agent.datadog.svc:8443: connection refused") }},
	{"provider-without-value", Provider, func(f *Facts) { routed(f, "") }},
	{"shadowed", Shadowed, func(f *Facts) {
		routed(f, "")
		f.Readings[0] = Reading{Asked: true, Values: []Value{{Object: NoLabels, Milli: 300_000, Text: "300", Time: noon}}}
		f.Metrics = append(f.Metrics, inspect.Metric{Namespace: "shop", Name: "datadogmetric@shop:orders", Kind: "gauge", Series: 1})
	}},
	{"keda", KEDA, func(f *Facts) {
		external(f, "s0-jobs_waiting", "scaledobject.keda.sh/name=worker")
		f.Autoscaler.ScaledObject = "worker"
		f.APIs[ExternalGroup] = API{Exists: true, Available: true, Service: "keda/keda-operator-metrics-apiserver:443", Owner: "KEDA"}
		f.Triggers = []Trigger{{Metric: "jobs_waiting:last"}}
	}},
	{"ambiguous", Overlap, func(f *Facts) {
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "AmbiguousSelector",
			Message: "pods by selector app=web are controlled by multiple HPAs: [shop/web shop/all]"}}
	}},
	{"ambiguous-1.37", Overlap, func(f *Facts) {
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "AmbiguousSelector",
			Message: "pods by selector app=web are controlled by more than one HPA (e.g. [shop/web shop/all])"}}
	}},
	{"silence", Unreachable, func(f *Facts) {
		f.Readings[0].Values = f.Readings[0].Values[:2] // a fault, too
		f.Asked = []time.Time{noon.Add(-59 * time.Second)}
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetPodsMetric",
			Message: "unable to fetch metrics from custom metrics API: no known available metric versions found"}}
	}},
	{"stale-asked", OneBroken, func(f *Facts) {
		f.Asked = []time.Time{noon.Add(-14 * time.Second)}
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetPodsMetric", Message: "no series of http_requests"}}
	}},
	{"rule", "", func(f *Facts) {
		f.Autoscaler.Metrics[0].Name, f.Autoscaler.Metrics[0].Target = "busy_ratio", "500m"
		f.Readings[0].Values = []Value{{Object: "web-1", Milli: 750, Text: "0.75"}, {Object: "web-2", Milli: 500, Text: "0.5"}, {Object: "web-3", Milli: 500, Text: "0.5"}}
		f.Rules = []*Rule{busyRule()}
	}},
	{"rule-operand", NeverPushed, func(f *Facts) {
		external(f, "busy_ratio", "")
		f.Rules = []*Rule{busyRule()}
		f.Rules[0].Operands[0].Values = []Value{value("", 3)}
		f.Rules[0].Operands[1].Values, f.Rules[0].Operands[1].Fault, f.Rules[0].Operands[1].Absent = nil, `no series of "total_workers:last" has a value`, true
	}},
	{"rule-operand-of-a-pod", PodsMissing, func(f *Facts) {
		f.Autoscaler.Metrics[0].Name, f.Autoscaler.Metrics[0].Target = "busy_ratio", "500m"
		f.Readings[0].Values = []Value{{Object: "web-1", Milli: 750, Text: "0.75"}, {Object: "web-2", Milli: 500, Text: "0.5"}}
		f.Rules = []*Rule{busyRule()}
		f.Rules[0].Operands[1].Values = f.Rules[0].Operands[1].Values[:2]
	}},
	{"rule-refused", NeverPushed, func(f *Facts) {
		external(f, "busy_ratio", "")
		f.Rules = []*Rule{busyRule()}
		f.Rules[0].State, f.Rules[0].Message, f.Rules[0].Operands = "Invalid", "value: undeclared reference to 'totl'", nil
	}},
	{"stale", OneBroken, func(f *Facts) {
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetPodsMetric", Message: "no series of http_requests"}}
	}},
	{"expired", NeverPushed, func(f *Facts) {
		external(f, "orders", "")
		f.Readings[0].Fault = `no series of "orders" among external metrics in "shop"; last seen 5m ago, expired after 1m`
	}},
	{"no-answer", Unavailable, func(f *Facts) {
		f.Readings = []Reading{{Asked: true, Code: 503, Fault: "the server is currently unable to handle the request"}}
		f.APIs = nil
	}},
	{"not-found", NotRegistered, func(f *Facts) {
		f.Readings = []Reading{{Asked: true, Code: 404, Fault: "the server could not find the requested resource"}}
		f.APIs = nil
	}},
	{"own-right", RightMissing, func(f *Facts) {
		f.Readings = []Reading{{Asked: true, Code: 403, Fault: `pods.custom.metrics.k8s.io "*" is forbidden: User "jane" cannot get resource`}}
		f.Unknown = []string{"what else is pushed: you may not list metrics.inspect.sluice.dev in shop"}
	}},
	{"policy", RightMissing, func(f *Facts) {
		external(f, "orders", "")
		f.Readings = []Reading{{Asked: true, Code: 403, Fault: `the external metric "orders" is denied by rules[2] of externalmetricpolicy/ours in the namespace shop`}}
	}},
	{"policy-for-the-controller", RightMissing, func(f *Facts) {
		external(f, "orders", "queue=mail")
		f.Readings = []Reading{{Asked: true, Values: []Value{value("queue=mail", 30)}}}
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "FailedGetExternalMetric",
			Message: `unable to get external metric shop/orders: unable to fetch metrics from external metrics API: the external metric "orders" must be asked for with a selector within "queue=sms", by rules[0] of clusterexternalmetricpolicy/all`}}
	}},
	{"misspelt", NeverPushed, func(f *Facts) { external(f, "queue_dept:last", "") }},
	{"never-pushed", NeverPushed, func(f *Facts) { external(f, "orders", "") }},
	{"rejected", NeverPushed, func(f *Facts) {
		external(f, "orders", "")
		f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "shop/web-1", Metric: "orders", Reason: "limit", Last: noon,
			Message: `metric "orders" is rejected: the limit of namespace shop (without its pods) is 100 metrics, and 100 are in use: a, b and 98 more`}}
		f.Limits = []inspect.Limit{{Of: inspect.Reference{Resource: "namespaces", Name: "shop"}, Metrics: 100, MaxMetrics: 100,
			Series: 100, MaxSeries: 5000, WantedMetrics: 104, WantedSeries: 109, Source: "pushed-metrics"}}
	}},
	{"other-namespace", OtherNamespace, func(f *Facts) {
		external(f, "invoices", "")
		f.Senders = []inspect.MetricSender{{Metric: "billing", Namespace: "billing", Name: "batch", Sort: "pod", Account: "batcher"}}
	}},
	{"other-namespace-of-nobody", OtherNamespace, func(f *Facts) { external(f, "invoices", "") }},
	{"other-namespace-of-an-address", OtherNamespace, func(f *Facts) {
		external(f, "invoices", "")
		f.Senders = []inspect.MetricSender{{Metric: "billing", Name: "192.0.2.7", Sort: "address"}}
	}},
	{"other-namespace-of-pods", OtherNamespace, func(f *Facts) {
		f.Autoscaler.Metrics[0].Name = "invoices"
		f.Readings = []Reading{{Asked: true, Code: 404, Resource: "pods", Fault: "no series of \"invoices\" has a value"}}
		f.Senders = []inspect.MetricSender{{Metric: "billing", Namespace: "ci", Name: "deployer", Sort: "account"}}
	}},
	{"other-kind", OtherKind, func(f *Facts) { external(f, "http_requests:rate", "") }},
	{"wrong-stat", OtherKind, func(f *Facts) {
		external(f, "http_requests:p95", "")
		f.Readings[0] = Reading{Asked: true, Code: 400, Fault: `"http_requests" is a counter, which has no p95; must be rate, count or total`}
	}},
	{"selector", SelectorEmpty, func(f *Facts) {
		external(f, "queue_depth", "queue=/mail")
		f.Sets = [][]inspect.Series{{{Labels: map[string]string{"queue": "/mail"}}, {Labels: map[string]string{"queue": "sms", "zone": "b"}}}}
	}},
	{"pods-missing", PodsMissing, func(f *Facts) {
		f.Readings[0].Values = f.Readings[0].Values[:1]
		f.Pods[2].Started = noon.Add(-8 * time.Second)
		refusedByLimit(f)
		f.LimitRanges = []LimitRange{{"pushed-metrics", []LimitEntry{
			{"Container", map[string]string{"memory": "1Gi"}}, {"sluice.dev/Pod", map[string]string{"sluice.dev/metrics": "2", "sluice.dev/series": "100"}}}}}
	}},
	{"pods-silent", PodsMissing, func(f *Facts) {
		f.Readings[0].Values = []Value{value("web-1", 40), value("web-2", 40)}
	}},
	{"not-scraped", NotScraped, func(f *Facts) {
		f.Readings[0].Values = []Value{value("web-1", 40)}
		f.Targets = []inspect.Target{
			{Namespace: "shop", Pod: "web-1", Endpoint: ":8000/metrics", Names: []string{"http_requests"}, State: inspect.TargetUp},
			{Namespace: "shop", Pod: "web-2", Endpoint: ":8000/metrics", Names: []string{"http_requests"}, State: inspect.TargetFailing,
				Error: "dial: connection refused"},
			{Namespace: "shop", Pod: "web-3", State: inspect.TargetInvalid, Error: "annotation sluice.dev/endpoints: endpoint 1: names are missing; must name the metrics that are taken"},
		}
	}},
	{"not-scraped-anywhere", NotScraped, func(f *Facts) {
		f.Readings = []Reading{{Asked: true, Code: 404, Resource: "pods", Fault: "no series of \"http_requests\" has a value; last seen 20s ago, expired after 15s"}}
		f.Metrics = []inspect.Metric{{Namespace: "shop", Name: "jobs", Resource: "pods", Kind: "counter"}}
		f.Targets = []inspect.Target{{Namespace: "shop", Pod: "web-2", Endpoint: ":8000/metrics", Names: []string{"http_requests"}, State: inspect.TargetFailing,
			Agent: "node-2", Error: "the answer is 404 Not Found; must be 200 OK, redirects are not followed"}}
	}},
	{"not-on-the-page", NotScraped, func(f *Facts) {
		f.Readings[0].Values = []Value{value("web-1", 40), value("web-3", 40)}
		f.Targets = []inspect.Target{{Namespace: "shop", Pod: "web-2", Endpoint: ":8000/metrics", Names: []string{"http_requests", "jobs"}, State: inspect.TargetUp,
			Missing: []string{"http_requests"}}}
	}},
	{"agent-cut-off", AgentCutOff, func(f *Facts) {
		f.Readings[0].Values = []Value{value("web-1", 40), value("web-2", 40)}
		f.withAgents()
	}},
	{"agent-cut-off-of-all", AgentCutOff, func(f *Facts) {
		f.Readings[0] = Reading{Asked: true, Code: 404, Fault: `no series of "http_requests" has a value; last seen 5m ago`}
		f.Metrics, f.Pods = nil, f.Pods[2:]
		f.withAgents()
	}},
	{"no-agent", NoAgent, func(f *Facts) {
		f.Readings[0].Values = []Value{value("web-1", 40), value("web-2", 40)}
		f.withAgents()
		f.Pods[2].Node = "node-9"
	}},
	{"pods-starting", PodsMissing, func(f *Facts) {
		f.Readings[0].Values = f.Readings[0].Values[:1]
		f.Pods[1].Ready = false
		f.Pods[2].Started = noon.Add(-8 * time.Second)
	}},
	{"series-rejected", SeriesRejected, func(f *Facts) {
		f.Readings[0].Values[1] = value("web-2", 20)
		seriesRefused(f, "web-2")
		f.LimitRanges = []LimitRange{{"pushed-metrics", []LimitEntry{{"sluice.dev/Pod", map[string]string{"sluice.dev/series": "100"}}}}}
	}},
	{"series-rejected-at-maximum", SeriesRejected, func(f *Facts) {
		f.Autoscaler.MaxReplicas = 3
		seriesRefused(f, "web-2")
	}},
	{"series-rejected-external", SeriesRejected, func(f *Facts) {
		external(f, "queue_depth", "")
		f.Readings = []Reading{{Asked: true, Values: []Value{value("queue=mail", 30)}}}
		f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "shop/batch", Metric: "queue_depth", Reason: "limit", Last: noon.Add(-time.Second),
			Message: `a new series of "queue_depth" is rejected: the limit of namespace shop (without its pods) is 2 series, and 2 are in use: queue_depth 2`}}
	}},
	{"pods-missing-at-maximum", PodsMissing, func(f *Facts) {
		f.Readings[0].Values = []Value{value("web-1", 5000)}
		f.Autoscaler.MaxReplicas, f.Autoscaler.CurrentReplicas = 3, 3
		refusedByLimit(f)
		f.LimitRanges = []LimitRange{}
	}},
	{"pods-missing-unknown-limits", PodsMissing, func(f *Facts) {
		f.Readings[0].Values = f.Readings[0].Values[:2]
		f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "web-3", Metric: "http_requests", Reason: "limit", Last: noon, Message: "over the limit"}}
	}},
	{"thousandths", TargetType, func(f *Facts) { f.Autoscaler.Metrics[0].Target = "100m" }},
	{"value", TargetType, func(f *Facts) {
		external(f, "queue_depth", "")
		f.Autoscaler.Metrics[0].TargetType = "Value"
		f.Autoscaler.CurrentReplicas, f.Scale.SpecReplicas, f.Scale.StatusReplicas = 10, 10, 10
		f.Readings = []Reading{{Asked: true, Values: []Value{value("queue=mail", 900)}}}
	}},
	{"same-target", Overlap, func(f *Facts) {
		f.Neighbours = []Neighbour{{Name: "web-cpu", TargetKind: "Deployment", TargetName: "web"}}
	}},
	{"shared-pods", Overlap, func(f *Facts) {
		f.Neighbours = []Neighbour{{Name: "api", TargetKind: "Deployment", TargetName: "api", SharedPods: 2}}
	}},
	{"one-broken", OneBroken, func(f *Facts) {
		f.Autoscaler.Metrics = append(f.Autoscaler.Metrics,
			inspect.AutoscalerMetric{Source: "External", Name: "orders", TargetType: "AverageValue", Target: "10", Current: "12"},
			inspect.AutoscalerMetric{Source: "Resource", Name: "cpu", TargetType: "Utilization", Target: "80"})
		f.Readings = append(f.Readings, Reading{Asked: true, Code: 404, Fault: "no series of \"orders\" has a value"}, Reading{})
		f.Readings[0].Values = []Value{value("web-1", 50), value("web-2", 50), value("web-3", 50)}
	}},
	{"switched-off", NotAbleToScale, func(f *Facts) {
		f.Autoscaler.CurrentReplicas, f.Pods, f.Scale.SpecReplicas, f.Scale.StatusReplicas = 0, []inspect.TargetPod{}, 0, 0
		f.Readings = []Reading{{Asked: true, Code: 404, Fault: "no series of \"http_requests\" for pods in \"shop\": others have it, but none that still lives and that the selector picks"}}
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled", Message: "scaling is disabled since the replica count of the target is zero"}}
	}},
	{"held-by-maximum", HeldBySpec, func(f *Facts) { f.Autoscaler.MaxReplicas = 3 }},
	{"held-by-select-policy", HeldBySpec, func(f *Facts) { f.Autoscaler.ScaleUp = &inspect.ScalingRules{SelectPolicy: "Disabled"} }},
	{"held-by-tolerance", HeldBySpec, func(f *Facts) { f.Autoscaler.Metrics[0].Target = "140" }},
	{"held-by-stabilization", HeldBySpec, func(f *Facts) { f.Autoscaler.Metrics[0].Target = "300" }},
	{"held-by-rate", HeldBySpec, func(f *Facts) {
		f.Autoscaler.ScaledObject, f.Autoscaler.Metrics[0].Target = "worker", "10"
		f.Autoscaler.ScaleUp = &inspect.ScalingRules{Policies: []inspect.ScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 60}}}
	}},
	{"target-absent", NotAbleToScale, func(f *Facts) {
		f.Scale, f.TargetAbsent = nil, `deployments.apps "web" not found`
	}},
	{"no-target", NotAbleToScale, func(f *Facts) {
		f.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "AbleToScale", Status: "False", Reason: "FailedGetScale", Message: `deployments.apps "web" not found`}}
	}},
}

// refusedByLimit has web-2 of two metrics refused.
func refusedByLimit(f *Facts) {
	f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "web-2", Metric: "http_requests", Reason: "limit", Last: noon, Message: refusedMessage}}
	f.Limits = []inspect.Limit{
		{Of: inspect.Reference{Resource: "namespaces", Name: "shop"}, Metrics: 1, MaxMetrics: 1, WantedMetrics: 99},
		{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-1"}, Metrics: 2, MaxMetrics: 2, MaxSeries: 100},
		{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-2"}, Metrics: 2, MaxMetrics: 2, WantedMetrics: 4,
			Series: 2, MaxSeries: 100, WantedSeries: 180, Source: "pushed-metrics"},
	}
}

// seriesRefused has a pod with a value of a metric that was refused further series of it.
func seriesRefused(f *Facts, pod string) {
	f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "shop/" + pod, Metric: "http_requests", Reason: "limit", Last: noon.Add(-3 * time.Second),
		Message: `a new series of "http_requests" is rejected: the limit of pod ` + pod + ` is 100 series, and 100 are in use: http_requests 100 (named by an autoscaler). ` +
			`Raise sluice.dev/series of type sluice.dev/Pod in a LimitRange of shop`}}
	f.Limits = []inspect.Limit{{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: pod}, Metrics: 1, MaxMetrics: 5, WantedMetrics: 1,
		Series: 100, MaxSeries: 100, WantedSeries: 140, Source: "pushed-metrics"}}
}

const refusedMessage = `metric "http_requests" is rejected: the limit of pod web-2 is 2 metrics, and 2 are in use: busy (named by an autoscaler), jobs. ` +
	`Raise sluice.dev/metrics of type sluice.dev/Pod in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`

// noAnswer is what a reader gets while the API is away.
func noAnswer(f *Facts) {
	f.Readings = []Reading{{Asked: true, Code: 503, Fault: "the server is currently unable to handle the request"}}
}

// A message with several signs has the same cause each time.
func TestAMessageWithTwoSignsHasOneCause(t *testing.T) {
	const message = `unable to get metric forbidden_logins: the server could not find the requested resource`
	for range 200 {
		if got := causeOf(message); got != NotRegistered {
			t.Fatalf("%q: %s, want %s", message, got, NotRegistered)
		}
	}
}

// What holds an autoscaler, or has switched it off, is the first finding.
func TestTheCauseIsOnTop(t *testing.T) {
	for _, one := range provoked {
		if one.cause != HeldBySpec && one.name != "switched-off" {
			continue
		}
		f := shop()
		one.facts(f)
		if r := Autoscaler(f); len(r.Findings) == 0 || r.Findings[0].Cause != one.cause || r.Findings[0].Warning != (one.cause == HeldBySpec) {
			t.Errorf("%s: %+v", one.name, r.Findings)
		}
	}
}

func TestAutoscaler(t *testing.T) {
	for _, c := range provoked {
		t.Run(c.name, func(t *testing.T) {
			f := shop()
			c.facts(f)
			r := Autoscaler(f)
			explains(t, c.name, c.cause, r.Findings, r.WriteText)
		})
	}
}

// explains checks that a report has the cause, or no finding if the cause is empty, and its text.
func explains(t *testing.T, name string, cause Cause, findings []Finding, write func(io.Writer, time.Time) error) {
	t.Helper()
	var text strings.Builder
	must(t, write(&text, noon))
	has := cause == "" && len(findings) == 0
	for _, finding := range findings {
		has = has || finding.Cause == cause
	}
	if !has {
		t.Errorf("findings %+v; want %q", findings, cause)
	}
	golden(t, name, text.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", path, got, want)
	}
}
