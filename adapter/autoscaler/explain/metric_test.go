package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

func TestMetric(t *testing.T) {
	facts := func() *MetricFacts {
		return &MetricFacts{Namespace: "shop", Name: "queue_depth",
			Metrics: []inspect.Metric{
				{Namespace: "shop", Name: "queue_depth", Kind: "gauge", Series: 2, LastSample: noon.Add(-time.Second), ReadBy: []string{"shop/web"}},
				{Namespace: "shop", Name: "queue_depth", Resource: "pods", Kind: "gauge", Objects: 1, Series: 1, LastSample: noon.Add(-time.Hour)},
				{Namespace: "mail", Name: "queue_depth", Kind: "gauge", Series: 1},
				{Name: "backlog", Kind: "gauge", Series: 1},
			},
			Series: []inspect.Series{
				{Object: inspect.Reference{Namespace: "shop"}, Labels: map[string]string{"queue": "/mail"}, Value: "5", LastSample: noon.Add(-time.Second), Interval: 10.2},
				{Object: inspect.Reference{Namespace: "shop"}, Labels: map[string]string{"queue": "/sms"}, Value: "6", LastSample: noon.Add(-time.Second), Interval: 30},
				{Object: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-1"}, Value: "7", LastSample: noon.Add(-time.Hour)},
			},
			Senders: []inspect.MetricSender{
				{Metric: "mail", Namespace: "mail", Name: "batch", Sort: "account"},
				{Metric: "shop", Namespace: "shop", Name: "web-1", Sort: "pod", Account: "front"}, {Metric: "shop", Name: "192.0.2.7", Sort: "address"},
			},
			Windows: []string{"10s", "1m"},
			Rejections: []inspect.Rejection{
				{Namespace: "shop", Sender: "shop/web-2", Metric: "queue_depth", Reason: "kind_conflict", Count: 12, Last: noon.Add(-3 * time.Second),
					Message: "queue_depth is already a gauge; cannot push it as a counter"},
				{Namespace: "shop", Sender: "shop/web-2", Metric: "other", Reason: "limit", Count: 1},
			},
		}
	}
	for name, change := range map[string]func(*MetricFacts){
		"name": func(*MetricFacts) {},
		"name-namespaces": func(f *MetricFacts) {
			f.Series[1].Object.Namespace = ""
			f.Metrics = append(f.Metrics, inspect.Metric{Name: "queue_depth", Kind: "gauge", Series: 1, LastSample: noon.Add(-time.Second)})
		},
		"name-expired": func(f *MetricFacts) {
			*f = MetricFacts{Namespace: "shop", Name: "orders", Metrics: []inspect.Metric{{Namespace: "shop", Name: "order", Kind: "gauge", Series: 1}},
				Expired: "last seen 1m ago, expired after 5s"}
		},
		"name-misspelt": func(f *MetricFacts) { f.Name = "backlogs" },
		"name-elsewhere": func(f *MetricFacts) {
			f.Namespace, f.Series, f.Rejections = "billing", nil, nil
			f.Unknown = []string{"what was rejected: you lack the right: rejections.inspect.sluice.dev is forbidden"}
		},
		"name-rejected": func(f *MetricFacts) {
			f.Name, f.Metrics, f.Series, f.Senders = "other", nil, nil, nil
			f.Rejections[1].Message, f.Rejections[1].Last = refusedMessage, noon.Add(-time.Minute)
		},
		"name-rule": func(f *MetricFacts) {
			f.Name, f.Series, f.Rejections, f.Rule = "busy_ratio", nil, nil, busyRule()
			f.Metrics = []inspect.Metric{{Namespace: "shop", Name: "busy_workers"}, {Namespace: "shop", Name: "total_workers"}}
			f.Rule.Value, f.Rule.Of, f.Rule.Time = "0.75", inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-1"}, noon.Add(-5*time.Second)
		},
		"name-computed": func(f *MetricFacts) {
			*f = MetricFacts{Namespace: "shop", Name: "busy_ratio", Metrics: []inspect.Metric{{Namespace: "shop", Name: "busy_workers", Kind: "gauge", Series: 1}}, Rule: busyRule()}
			f.Rule.Operands[1].Values, f.Rule.Operands[1].Fault, f.Rule.Operands[1].Absent = nil, "total_workers was never pushed in shop, or has expired", true
		},
		"name-refused": func(f *MetricFacts) {
			*f = MetricFacts{Namespace: "shop", Name: "busy_ratio", Rule: busyRule()}
			f.Rule.State, f.Rule.Message, f.Rule.Operands = "Invalid", "value: undeclared reference to 'totl'", nil
		},
		"name-renamed": func(f *MetricFacts) {
			*f = MetricFacts{Namespace: "shop", Name: "depth", Metrics: f.Metrics,
				Rule: &Rule{Rule: inspect.Rule{Name: "short", Metric: "$1", From: []string{"queue_(.*)"}, State: inspect.RuleAccepted},
					Operands: []Operand{{RuleOperand: inspect.RuleOperand{Metric: "queue_depth"}, Values: []Value{value("external", 60)}}}}}
		},
		"name-hostile": func(f *MetricFacts) {
			f.Series = []inspect.Series{{Labels: map[string]string{"a": "x\x1b[31m\ny"}, Value: "1", LastSample: noon}}
		},
	} {
		f := facts()
		change(f)
		r := Metric(f)
		var text strings.Builder
		must(t, r.WriteText(&text, noon))
		golden(t, name, text.String())
		if r.Broken() != (name == "name-misspelt" || name == "name-elsewhere" || name == "name-rejected" || name == "name-computed" || name == "name-expired" || name == "name-refused") {
			t.Errorf("%s: broken is %v", name, r.Broken())
		}
	}
}
