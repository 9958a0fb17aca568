package rule_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// oneRule is a file with one rule of two operands.
func oneRule(metric, a, b, value string) string {
	return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: %s, namespace: shop}\nspec:\n  metric: %q\n  let: {a: %q, b: %q}\n  value: %q\n",
		"r", metric, a, b, value)
}

// A value that is no number is not found, and the message says why.
func TestExpressionsWithoutANumber(t *testing.T) {
	for value, says := range map[string]string{
		"a / b":                      "infinite with a = 1, b = 0",
		"b / b + a":                  "not a number with a = 1, b = 0",
		"math.sqrt(-a) + b":          "not a number",
		"a / b - a / b":              "not a number",
		"a * 1e308 * 1e308 + b":      "infinite",
		"double(int(a / b))":         "integer overflow",
		"double(int(1e300 + a + b))": "integer overflow",
		"double(int(a) / int(b))":    "division by zero",
		"a > 0.0 ? b / b : 1.0":      "not a number",
		"math.greatest(b / b, a)":    "NaN values cannot be ordered: math.greatest with a = 1",
	} {
		p := newPushed(t, "")
		documents, err := rule.Parse("r", []byte(oneRule("m", "x", "y", value)))
		must(t, err)
		set := rule.NewSet(documents, parseSelector, nil)
		must(t, set.Faults())
		p.rules.Replace(set)
		p.push(pod("web-1"), metric.Gauge, "x", 1)
		p.push(pod("web-1"), metric.Gauge, "y", 0)
		points, err := p.reader.Objects(ask("pods", "web-1", "m"))
		if len(points) > 0 {
			t.Errorf("%s: %v", value, points)
		}
		wantError(t, err, metric.ErrNotFound, says)
	}
}

// Any name that can be pushed may be an operand, whatever its letters. Other names are refused, and none
// breaks a line of a message.
func TestHostileNames(t *testing.T) {
	for _, one := range []struct{ metric, operand, fault string }{
		{"größe", "größe_total", ""},
		{"m", "other/x", ""}, // a name with a slash, not one of another namespace
		{"a\nb\u202e", "x", `metric is "a\nb\u202e"`},
		{"m", "x:rate:1m:rate", "no metric can be pushed with that name"},
		{"m", strings.Repeat("x", 300), "at most 253 bytes"},
		{"m", "m:count", "which the rule itself computes"},
		{"m:rate", "x", "must not end in a stat or a window"},
		{strings.Repeat("größe", 60), "x", "has 420 bytes; must have at most 253"},
	} {
		documents, err := rule.Parse("r", []byte(oneRule(one.metric, one.operand, "y", "a + b")))
		if err == nil {
			err = rule.NewSet(documents, parseSelector, nil).Faults()
		}
		if text := fmt.Sprint(err); (err == nil) != (one.fault == "") || !strings.Contains(text, one.fault) || strings.ContainsAny(text, "\n\u202e") {
			t.Errorf("%.40q: %q", one, text)
		}
	}
}

// Readers read while the rules change, and get a value of one of the sets.
func TestRulesChangeWhileTheyAreRead(t *testing.T) {
	p := newPushed(t, renamedOperand)
	p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
	p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
	p.push(pod("web-1"), metric.Counter, "hits_total", 600)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 50 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, name := range []string{"busy_ratio", "hits_per_second:count", "work_left"} {
					points, err := p.reader.Objects(ask("pods", "*", name))
					if err != nil && !errors.Is(err, metric.ErrNotFound) {
						t.Errorf("%s: %v", name, err)
						return
					}
					if name == "busy_ratio" && err == nil && points[0].Value != metric.Float(0.75) && points[0].Value != metric.Float(1.5) {
						t.Errorf("%v", points)
						return
					}
				}
				p.reader.Listed(10, nil)
				p.rules.Set().NamesFor("shop", "hits_total", func(string) bool { return false })
			}
		})
	}
	twice := strings.ReplaceAll(renamedOperand, `"busy / total"`, `"2.0 * busy / total"`)
	for i := range 60 {
		p.setRules([]string{renamedOperand, twice, ""}[i%3])
		if r := p.rules.Set().Rule("shop", "busy_ratio"); r != nil {
			r.Last()
		}
	}
	close(stop)
	readers.Wait()
}
