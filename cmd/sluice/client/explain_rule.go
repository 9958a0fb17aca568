package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rules lists the rules that count in the namespace: its own, and those of the cluster as far as the
// user may list them.
func (g *gatherer) rules() []inspect.Rule {
	all, err := pages[inspect.Rule](g, "rules", g.namespace)
	if err != nil {
		return nil // what else is listed fails alike, and says so
	}
	// The list of all is ordered by namespace, so the cluster's rules come first.
	first, err := fetch[inspect.List[inspect.Rule]](g.ctx, g.api, inspectPath("rules", "")+query("limit", "500"))
	if err != nil {
		return all
	}
	for _, r := range first.Items {
		if r.Namespace == "" {
			all = append(all, r)
		}
	}
	return all
}

// ruleOf returns the rule behind a bare name: one that holds before one that is refused, and one of the
// namespace before one of the cluster. Nil: there is none.
func ruleOf(name string, all []inspect.Rule) *explain.Rule {
	var found *explain.Rule
	for _, r := range all {
		operands, is := behind(name, &r)
		if is && (found == nil || r.Holds() && !found.Holds()) {
			found = &explain.Rule{Rule: r}
			for _, o := range operands {
				if r.Holds() {
					found.Operands = append(found.Operands, explain.Operand{RuleOperand: o})
				}
			}
		}
	}
	return found
}

// behind reports whether a rule computes or renames a name, and from which metrics.
func behind(name string, r *inspect.Rule) ([]inspect.RuleOperand, bool) {
	if r.Expression != "" || len(r.From) != 1 {
		return r.Operands, r.Metric == name
	}
	renames := rule.NewSet([]rule.Document{{Name: r.Name,
		Spec: rule.Spec{Rename: &rule.Rename{From: r.From[0], To: r.Metric}}}},
		labelselector.MatchLabels, nil)
	pushed := renames.PushedName("", name)
	return []inspect.RuleOperand{{Metric: pushed}}, pushed != ""
}

// rulesOfMetrics finds the rules behind an autoscaler's metrics. It asks for each operand as the
// controller asks for the metric.
func (g *gatherer) rulesOfMetrics(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	all := g.rules()
	if len(all) == 0 {
		return
	}
	g.facts.Rules = make([]*explain.Rule, len(hpa.Spec.Metrics))
	for i := range hpa.Spec.Metrics {
		if !g.facts.Readings[i].Asked {
			continue
		}
		found := ruleOf(metric.BareName(unescaped(g.facts.Autoscaler.Metrics[i].Name)), all)
		g.facts.Rules[i] = found
		for n := 0; found != nil && n < len(found.Operands); n++ {
			o := &found.Operands[n]
			q, err := g.questionOf(specOf(&hpa.Spec.Metrics[i], &o.RuleOperand))
			if err != nil {
				o.Fault = err.Error()
				continue
			}
			g.operand(o, q, "")
		}
	}
}

// specOf is the metric of an autoscaler with an operand in the metric's place.
func specOf(m *autoscalingv2.MetricSpec, o *inspect.RuleOperand) *autoscalingv2.MetricSpec {
	out := m.DeepCopy()
	var of *autoscalingv2.MetricIdentifier
	switch {
	case out.Pods != nil:
		of = &out.Pods.Metric
	case out.Object != nil:
		of = &out.Object.Metric
	case out.External != nil:
		of = &out.External.Metric
	default:
		return out
	}
	of.Name = inPath(o.Metric)
	if more, err := metav1.ParseToLabelSelector(o.Selector); err == nil && o.Selector != "" {
		if of.Selector == nil {
			of.Selector = &metav1.LabelSelector{}
		}
		for key, value := range more.MatchLabels {
			more.MatchExpressions = append(more.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
		of.Selector.MatchExpressions = append(of.Selector.MatchExpressions, more.MatchExpressions...)
	}
	return out
}

// operand adds the values of an answer to an operand, each with a prefix of its object.
func (g *gatherer) operand(o *explain.Operand, q question, prefix string) {
	answer := g.reading(q)
	for _, v := range answer.Values {
		if v.Object == explain.NoLabels {
			v.Object = ""
		}
		v.Object = strings.TrimSpace(prefix + v.Object)
		o.Values = append(o.Values, v)
	}
	o.Fault, o.Absent = answer.Fault, len(o.Values) == 0 && answer.Code == http.StatusNotFound
}

// mostResources bounds the resources on which each operand is read.
const mostResources = 4

// operandDetail is the pushed metric that an operand is read from, perhaps by a name that one of the
// rules gives it.
func (g *gatherer) operandDetail(o *explain.Operand, all []inspect.Rule) (*inspect.MetricDetail, error) {
	detail, err := g.detail(o.Metric)
	if !isAbsent(err) {
		return detail, err
	}
	if r := ruleOf(metric.BareName(o.Metric), all); r != nil && r.Expression == "" && len(r.Operands) == 1 {
		return g.detail(r.Operands[0].Metric)
	}
	return detail, err
}

// operandsAnywhere reads the operands on the objects of each resource that has them.
func (g *gatherer) operandsAnywhere(r *explain.Rule, all []inspect.Rule) {
	for n := range r.Operands {
		o := &r.Operands[n]
		detail, err := g.operandDetail(o, all)
		if err != nil {
			o.Absent = isAbsent(err)
			o.Fault = fmt.Sprintf("%s was never pushed in %s, or has expired", metric.BareName(o.Metric), g.namespace)
			if !o.Absent {
				o.Fault = err.Error()
			}
			continue
		}
		name := url.PathEscape(inPath(o.Metric))
		for _, m := range detail.Metrics[:min(len(detail.Metrics), mostResources)] {
			switch m.Resource {
			case "":
				g.operand(o, question{path: ExternalAPI + g.inNamespace() + name + query("labelSelector", o.Selector)}, "external ")
			case "namespaces":
				g.operand(o, question{path: CustomAPI + g.inNamespace() + "metrics/" + name + query("metricLabelSelector",
					o.Selector)}, "namespaces/")
			default:
				g.operand(o, question{path: CustomAPI + g.inNamespace() + m.Resource + "/*/" + name + query("metricLabelSelector",
					o.Selector)}, m.Resource+"/")
			}
		}
	}
}
