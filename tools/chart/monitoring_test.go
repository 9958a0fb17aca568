package chart

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var described = regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\|")

// known are the metrics of METRICS.md with their labels; of a histogram also its parts.
func known(t *testing.T) map[string][]string {
	t.Helper()
	// beside those listed: the Go client's own
	metrics := map[string][]string{"process_resident_memory_bytes": nil}
	for _, row := range described.FindAllStringSubmatch(read(t, "../../METRICS.md"), -1) {
		labels := strings.Fields(strings.ReplaceAll(row[3], "`", ""))
		if row[2] == "histogram" {
			metrics[row[1]+"_sum"], metrics[row[1]+"_count"] = labels, labels
			metrics[row[1]+"_bucket"] = append(labels, "le")
			continue
		}
		metrics[row[1]] = labels
	}
	if len(metrics) < 20 {
		t.Fatalf("METRICS.md has %d metrics: the test does not see what it should", len(metrics))
	}
	return metrics
}

// ofAScrape are the labels that a scrape adds.
var ofAScrape = []string{"job", "instance", "namespace", "pod", "service"}

// badNames says which metrics and labels of an expression do not exist, or that it is none.
func badNames(metrics map[string][]string, expr string) (faults []string) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		return []string{err.Error()}
	}
	labels := slices.Clone(ofAScrape)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			own, exists := metrics[selector.Name]
			if !exists {
				faults = append(faults, "no metric "+selector.Name)
			}
			for _, matcher := range selector.LabelMatchers {
				if matcher.Name != "__name__" && !slices.Contains(own, matcher.Name) {
					faults = append(faults, selector.Name+" has no label "+matcher.Name)
				}
			}
			labels = append(labels, own...)
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if sum, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range sum.Grouping {
				if !slices.Contains(labels, label) {
					faults = append(faults, "nothing has the label "+label)
				}
			}
		}
		return nil
	})
	return faults
}

func TestBadNamesAreFound(t *testing.T) {
	metrics := known(t)
	for expr, bad := range map[string]bool{
		"sluice_series > 0.9 * sluice_series_limit":                 false,
		"sum by (reason) (rate(sluice_samples_rejected_total[5m]))": false,
		"sluice_serie > 1": true,
		"sum by (reasons) (rate(sluice_samples_rejected_total[5m]))":          true,
		`sluice_samples_applied_total{reason="limit"}`:                        true,
		"rate(sluice_series[5m]":                                              true,
		"histogram_quantile(0.9, sluice_api_request_duration_seconds_bucket)": false,
		"sluice_api_request_duration_seconds":                                 true,
	} {
		if got := len(badNames(metrics, expr)) > 0; got != bad {
			t.Errorf("%s: refused %v, want %v", expr, got, bad)
		}
	}
}

func TestAlertsAreOfMetricsThatExist(t *testing.T) {
	metrics := known(t)
	var rules []monitoring.Rule
	if err := yaml.UnmarshalStrict([]byte(read(t, folder+"/alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		for _, fault := range badNames(metrics, rule.Expr.String()) {
			t.Errorf("%s: %s", rule.Alert, fault)
		}
		for what, text := range map[string]string{"severity": rule.Labels["severity"], "summary": rule.Annotations["summary"], "description": rule.Annotations["description"]} {
			if text == "" {
				t.Errorf("%s has no %s", rule.Alert, what)
			}
		}
	}
	rule := only[*monitoring.PrometheusRule](t, strictly(t, mustRender(t, "", "prometheusRule.enabled=true")))
	if got := len(rule.Spec.Groups[0].Rules); len(rules) < 5 || got != len(rules) {
		t.Errorf("%d of %d alerts were rendered: want all, and some", got, len(rules))
	}
}

func TestDashboardIsOfMetricsThatExist(t *testing.T) {
	metrics := known(t)
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, folder+"/dashboards/sluice.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 10 {
		t.Errorf("%d panels: the test does not see what it should", len(dashboard.Panels))
	}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("%s: another panel has the number %d", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			for _, fault := range badNames(metrics, target.Expr) {
				t.Errorf("%s: %s", panel.Title, fault)
			}
		}
	}
}
