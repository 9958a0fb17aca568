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
var ofAScrape = []string{"cluster", "job", "instance", "namespace", "exported_namespace", "pod", "service"}

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
	must(t, yaml.UnmarshalStrict([]byte(read(t, folder+"/alerts.yaml")), &rules))
	runbooks := sections(t)
	for _, rule := range rules {
		if _, ok := runbooks[rule.Alert]; !ok {
			t.Errorf("docs/runbooks.md has no section %s", rule.Alert)
		}
		delete(runbooks, rule.Alert)
		if url := rule.Annotations["runbook_url"]; url != runbookPage+"#"+strings.ToLower(rule.Alert) {
			t.Errorf("runbook_url of %s is %s", rule.Alert, url)
		}
		for _, fault := range badNames(metrics, rule.Expr.String()) {
			t.Errorf("%s: %s", rule.Alert, fault)
		}
		for what, text := range map[string]string{"severity": rule.Labels["severity"], "summary": rule.Annotations["summary"], "description": rule.Annotations["description"]} {
			if text == "" {
				t.Errorf("%s has no %s", rule.Alert, what)
			}
		}
	}
	for alert := range runbooks {
		t.Errorf("docs/runbooks.md has a section %s, and there is no such alert", alert)
	}
	rule := only[*monitoring.PrometheusRule](t, strictly(t, mustRender(t, "", "prometheusRule.enabled=true")))
	if got := len(rule.Spec.Groups[0].Rules); len(rules) < 5 || got != len(rules) {
		t.Errorf("%d of %d alerts were rendered: want all, and some", got, len(rules))
	}
}

// runbookPage is the address of the page that the alerts lead to.
const runbookPage = "https://github.com/sluice-metrics/sluice/blob/main/docs/runbooks.md"

// sections are those of docs/runbooks.md, each with all that a runbook says.
func sections(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, section := range strings.Split(read(t, "../../docs/runbooks.md"), "\n## ")[1:] {
		alert, text, _ := strings.Cut(section, "\n")
		for _, part := range []string{"**Meaning.**", "**Look at.**", "**Remedy.**"} {
			if !strings.Contains(text, part) {
				t.Errorf("docs/runbooks.md: %s has no %s", alert, part)
			}
		}
		found[alert] = text
	}
	return found
}

// TestRunbooksOfTheUser: the alerts lead to the page of the values.
func TestRunbooksOfTheUser(t *testing.T) {
	rule := only[*monitoring.PrometheusRule](t, strictly(t, mustRender(t, "", "prometheusRule.enabled=true,prometheusRule.runbookURL=https://wiki.example/sluice")))
	for _, alert := range rule.Spec.Groups[0].Rules {
		if url := alert.Annotations["runbook_url"]; url != "https://wiki.example/sluice#"+strings.ToLower(alert.Alert) {
			t.Errorf("runbook_url of %s is %s", alert.Alert, url)
		}
	}
}

var metricName = regexp.MustCompile(`\b(sluice|process)_[a-z_]+`)

// panels are those of the dashboard.
type panels []struct {
	ID      int
	Type    string
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

func readPanels(t *testing.T) panels {
	t.Helper()
	var dashboard struct{ Panels panels }
	must(t, json.Unmarshal([]byte(read(t, folder+"/dashboards/sluice.json")), &dashboard))
	if len(dashboard.Panels) < 10 {
		t.Fatalf("%d panels: the test does not see what it should", len(dashboard.Panels))
	}
	return dashboard.Panels
}

// shownNowhere are the metrics that need neither panel nor alert, each with the reason.
var shownNowhere = map[string]string{}

// TestEveryMetricHasAUse: a metric that nobody is shown is a cost without a use.
func TestEveryMetricHasAUse(t *testing.T) {
	texts := []string{read(t, folder+"/alerts.yaml")}
	for _, panel := range readPanels(t) {
		for _, target := range panel.Targets {
			texts = append(texts, target.Expr)
		}
	}
	used := map[string]bool{}
	for _, name := range metricName.FindAllString(strings.Join(texts, "\n"), -1) {
		used[strings.TrimSuffix(name, "_bucket")] = true
	}
	for _, row := range described.FindAllStringSubmatch(read(t, "../../METRICS.md"), -1) {
		switch reason, listed := shownNowhere[row[1]]; {
		case !used[row[1]] && !listed:
			t.Errorf("%s is in no panel and no alert", row[1])
		case used[row[1]] && listed:
			t.Errorf("%s is shown, and listed as not shown (%s)", row[1], reason)
		}
	}
}

func TestDashboardIsOfMetricsThatExist(t *testing.T) {
	metrics := known(t)
	ids := map[int]bool{}
	for _, panel := range readPanels(t) {
		if ids[panel.ID] {
			t.Errorf("%s: another panel has the number %d", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		if len(panel.Targets) == 0 && panel.Type != "row" {
			t.Errorf("%s shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			const chosen = `cluster=~"$cluster",job=~"$job"`
			if strings.Count(target.Expr, chosen) != len(metricName.FindAllString(target.Expr, -1)) {
				t.Errorf("%s: not every metric is of the clusters and jobs that are chosen: %s", panel.Title, target.Expr)
			}
			plain := strings.NewReplacer(chosen+",", "", chosen, "").Replace(target.Expr)
			for _, fault := range badNames(metrics, plain) {
				t.Errorf("%s: %s", panel.Title, fault)
			}
		}
	}
}
